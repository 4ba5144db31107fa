package abi

import "encoding/binary"

// Answer is a guest's answer for one key.
type Answer struct {
	Status Status
	// TTLMS is a time to live in milliseconds or one of the TTL words.
	TTLMS   uint32
	Version uint64
	// Body is the value or the message. After DecodeResponse it points into
	// the frame.
	Body []byte
	// ContentType and Code are the TLVs of those types, nil when not given.
	// After DecodeResponse they point into the frame.
	ContentType, Code []byte
}

// Size is how much the answer adds to a frame.
func (a *Answer) Size() int {
	return ResponseRecord + len(a.Body) + tlvSize(a.ContentType) + tlvSize(a.Code)
}

func tlvSize(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	return TLVHeader + len(b)
}

// AppendAnswer appends one answer to a response's frame.
func AppendAnswer(b []byte, a *Answer) []byte {
	b = append(b, byte(a.Status), 0, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, a.TTLMS)
	b = binary.LittleEndian.AppendUint64(b, a.Version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(a.Body)))
	b = binary.LittleEndian.AppendUint32(b, uint32(tlvSize(a.ContentType)+tlvSize(a.Code)))
	b = append(b, a.Body...)
	b = appendTLV(b, TLVContentType, a.ContentType)
	return appendTLV(b, TLVErrorCode, a.Code)
}

func appendTLV(b []byte, kind uint16, value []byte) []byte {
	if len(value) == 0 {
		return b
	}
	b = binary.LittleEndian.AppendUint16(b, kind)
	b = binary.LittleEndian.AppendUint16(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

// DecodeResponse reads exactly keys answers and nothing behind them. It is as
// strict as a host has to be: every count, size, status and reserved field is
// checked, and nothing is allocated by a number that the guest wrote. The
// answers point into b.
func DecodeResponse(b []byte, keys int) ([]Answer, error) {
	if uint64(keys)*ResponseRecord > uint64(len(b)) {
		return nil, frameError("the response is shorter than one answer for each key")
	}
	answers := make([]Answer, keys)
	for i := range answers {
		rest, err := decodeAnswer(&answers[i], b)
		if err != nil {
			return nil, err
		}
		b = rest
	}
	if len(b) > 0 {
		return nil, frameError("the response has bytes behind the last answer")
	}
	return answers, nil
}

func decodeAnswer(a *Answer, b []byte) (rest []byte, err error) {
	if len(b) < ResponseRecord {
		return nil, frameError("the response ends inside an answer")
	}
	if b[1]|b[2]|b[3] != 0 {
		return nil, frameError("an answer's reserved field is not 0")
	}
	a.Status = Status(b[0])
	a.TTLMS = binary.LittleEndian.Uint32(b[4:])
	a.Version = binary.LittleEndian.Uint64(b[8:])
	body := uint64(binary.LittleEndian.Uint32(b[16:]))
	tlvs := uint64(binary.LittleEndian.Uint32(b[20:]))
	b = b[ResponseRecord:]
	if body+tlvs > uint64(len(b)) {
		return nil, frameError("an answer's size does not fit")
	}
	a.Body = b[:body:body]
	if err := a.checkStatus(); err != nil {
		return nil, err
	}
	return b[body+tlvs:], a.decodeTLVs(b[body : body+tlvs])
}

func (a *Answer) checkStatus() error {
	switch a.Status {
	case StatusValue, StatusNoStore:
		return nil
	case StatusAbsent:
		if len(a.Body) > 0 {
			return frameError("an absent answer has a body")
		}
		return nil
	case StatusRetry, StatusError:
		if a.Version != 0 {
			return frameError("an answer without a value has a version")
		}
		return nil
	}
	return frameError("an answer's status is unknown")
}

func (a *Answer) decodeTLVs(b []byte) error {
	for len(b) > 0 {
		if len(b) < TLVHeader {
			return frameError("an answer ends inside a TLV")
		}
		if b[2]|b[3] != 0 {
			return frameError("a TLV's reserved field is not 0")
		}
		kind := binary.LittleEndian.Uint16(b)
		size := uint64(binary.LittleEndian.Uint32(b[4:]))
		b = b[TLVHeader:]
		if size > uint64(len(b)) {
			return frameError("a TLV's size does not fit")
		}
		if err := a.takeTLV(kind, b[:size:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

func (a *Answer) takeTLV(kind uint16, value []byte) error {
	var field *[]byte
	switch kind {
	case TLVContentType:
		field = &a.ContentType
	case TLVErrorCode:
		field = &a.Code
	default:
		return nil
	}
	if *field != nil {
		return frameError("an answer has a TLV twice")
	}
	*field = value
	return nil
}

// FrameError says why a frame is not one.
type FrameError struct{ reason string }

func (e *FrameError) Error() string { return "bad frame: " + e.reason }

func frameError(reason string) error { return &FrameError{reason} }
