package abi

import "encoding/binary"

// Request is one call of a guest.
type Request struct {
	Kind       Kind
	Background bool
	// BudgetMS is how long the call may take, in milliseconds.
	BudgetMS uint32
	Keys     []Key
}

// Key is one key of a request.
type Key struct {
	Key string
	// Previous is the version that is being replaced, 0 when not known.
	Previous uint64
}

// Size is the length of the request's frame.
func (r *Request) Size() int {
	n := RequestHeader
	for _, k := range r.Keys {
		n += KeySize(k.Key)
	}
	return n
}

// KeySize is how much one key adds to a frame.
func KeySize(key string) int { return RequestRecord + len(key) }

// EncodeRequest makes the frame of a request.
func EncodeRequest(r *Request) []byte {
	return AppendRequest(make([]byte, 0, r.Size()), r)
}

// AppendRequest appends the frame of a request.
func AppendRequest(b []byte, r *Request) []byte {
	var flags uint8
	if r.Background {
		flags = FlagBackground
	}
	b = binary.LittleEndian.AppendUint16(b, RequestHeader)
	b = append(b, byte(r.Kind), flags)
	b = binary.LittleEndian.AppendUint32(b, r.BudgetMS)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.Keys)))
	b = binary.LittleEndian.AppendUint32(b, 0)
	for _, k := range r.Keys {
		b = binary.LittleEndian.AppendUint32(b, uint32(RequestRecord-4+len(k.Key)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(k.Key)))
		b = binary.LittleEndian.AppendUint64(b, k.Previous)
		b = append(b, k.Key...)
	}
	return b
}

// DecodeRequest reads a request as a guest does: fields it does not know are
// skipped, whatever does not fit is an error.
func DecodeRequest(b []byte) (*Request, error) {
	if len(b) < RequestHeader {
		return nil, frameError("the request is shorter than its header")
	}
	header := int(binary.LittleEndian.Uint16(b))
	if header < RequestHeader || header > len(b) {
		return nil, frameError("the request's header size does not fit")
	}
	r := &Request{
		Kind:       Kind(b[2]),
		Background: b[3]&FlagBackground != 0,
		BudgetMS:   binary.LittleEndian.Uint32(b[4:]),
	}
	count := binary.LittleEndian.Uint32(b[8:])
	b = b[header:]
	if uint64(count)*RequestRecord > uint64(len(b)) {
		return nil, frameError("the request's key count does not fit")
	}
	r.Keys = make([]Key, count)
	for i := range r.Keys {
		var ok bool
		if r.Keys[i], b, ok = cutKey(b); !ok {
			return nil, frameError("a key's size does not fit")
		}
	}
	return r, nil
}

// cutKey takes the first key's record off b.
func cutKey(b []byte) (k Key, rest []byte, ok bool) {
	if len(b) < RequestRecord {
		return Key{}, nil, false
	}
	record := uint64(binary.LittleEndian.Uint32(b)) + 4
	size := uint64(binary.LittleEndian.Uint32(b[4:]))
	if record > uint64(len(b)) || record < RequestRecord+size {
		return Key{}, nil, false
	}
	k.Previous = binary.LittleEndian.Uint64(b[8:])
	k.Key = string(b[RequestRecord : RequestRecord+size])
	return k, b[record:], true
}
