package httpapi

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// resource is what a path names.
type resource uint8

const (
	nothing         resource = iota
	probe                    // /livez, /readyz, /metrics
	listing                  // /v1/namespaces
	namespace                // /v1/namespaces/{ns}
	singleKey                // …/keys/{k} and …/keys-b64/{k}
	batchGet                 // …/batch/get
	batchPut                 // …/batch/put
	batchInvalidate          // …/batch/invalidate
)

// target is a path understood.
type target struct {
	resource  resource
	namespace string
	key       string // any bytes; of singleKey
}

// rawPath is the path as it was sent. URL.EscapedPath is that too, but for a
// path that holds a byte that should have been escaped: it then escapes the
// decoded path anew, which turns a %2F beside that byte into a slash and names
// another key.
func rawPath(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.EscapedPath()
}

// locate cuts an escaped path at its raw slashes, decodes each part exactly
// once and finds what it names. A path that clients, proxies or routers might
// read in two ways is refused, never tidied: the tidied one names another key.
func locate(escaped string) (target, *problem) {
	parts, refused := split(escaped)
	if refused != nil {
		return target{}, refused
	}
	if len(parts) == 1 && slices.Contains([]string{"livez", "readyz", "metrics"}, parts[0]) {
		return target{resource: probe}, nil
	}
	if len(parts) < 2 || parts[0] != "v1" || parts[1] != "namespaces" {
		return target{}, nil
	}
	switch len(parts) {
	case 2:
		return target{resource: listing}, nil
	case 3:
		return target{resource: namespace, namespace: parts[2]}, nil
	case 5:
		return below(parts[2], parts[3], parts[4])
	}
	return target{}, nil
}

// below finds what two parts name inside a namespace.
func below(name, collection, member string) (target, *problem) {
	found := target{namespace: name}
	switch collection + "/" + member {
	case "batch/get":
		found.resource = batchGet
	case "batch/put":
		found.resource = batchPut
	case "batch/invalidate":
		found.resource = batchInvalidate
	}
	switch collection {
	case "keys":
		found.resource, found.key = singleKey, member
	case "keys-b64":
		key, ok := decodeKey(member)
		if !ok {
			return target{}, invalidKey("a key below keys-b64 is canonical base64url without padding; the empty key is =")
		}
		found.resource, found.key = singleKey, key
	}
	return found, nil
}

func split(escaped string) ([]string, *problem) {
	rest, rooted := strings.CutPrefix(escaped, "/")
	if !rooted {
		return nil, invalidRequest("the path does not begin with a slash")
	}
	if rest == "" {
		return nil, nil
	}
	parts := strings.Split(rest, "/")
	unclean := len(parts) // the first part that is, if any
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil {
			return nil, invalidRequest("the path holds a percent sign that is not followed by two hex digits")
		}
		if parts[i] = decoded; isUnclean(decoded) {
			unclean = min(unclean, i)
		}
	}
	if unclean == len(parts) {
		return parts, nil
	}
	if unclean == 4 && len(parts) == 5 && parts[0] == "v1" && parts[1] == "namespaces" && isKeys(parts[3]) {
		return nil, invalidKey("clients rewrite paths that end in an empty part, a dot or two: name this key below keys-b64")
	}
	return nil, invalidRequest("the path holds an empty part, a dot or two dots; nothing is redirected")
}

// isUnclean is true for what a client or proxy drops from a path, whether its
// dots were escaped or not: to them it is the same.
func isUnclean(part string) bool { return part == "" || part == "." || part == ".." }

func isKeys(part string) bool { return part == "keys" || part == "keys-b64" }

// decodeKey reads a part below keys-b64. Only the one text that encodeB64
// makes of a key is taken, so that a key has one path.
func decodeKey(text string) (string, bool) {
	if text == "=" {
		return "", true
	}
	if text == "" {
		return "", false
	}
	return decodeB64(text)
}

func encodeB64(bytes string) string { return base64.RawURLEncoding.EncodeToString([]byte(bytes)) }

// decodeB64 takes canonical base64url without padding; the comparison refuses
// line breaks and stray last bits, which the decoder skips.
func decodeB64(text string) (string, bool) {
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || base64.RawURLEncoding.EncodeToString(decoded) != text {
		return "", false
	}
	return string(decoded), true
}
