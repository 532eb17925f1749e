package recording

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Secrets is the resource whose values are not kept.
const Secrets = "secrets"

// HashPrefix begins the replacement of a Secret's value.
const HashPrefix = "hmac-sha256:"

// lastApplied is the annotation in which kubectl apply leaves a copy of its request.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// HideValues returns a Secret with a hash in place of each of its values, and of the annotation that repeats them. The
// hash uses a key, so that values cannot be guessed from outside, and covers the place of the value: it shows that a
// value has changed, or is the same as earlier, but not that two Secrets have the same value. It returns nil if data is
// not a Secret. Hashes stay as they are.
func HideValues(key []byte, where string, data []byte) []byte {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return nil
	}
	for _, member := range []string{"data", "stringData"} {
		if !hideIn(key, where+"\x00data", object, member, "") {
			return nil
		}
	}
	var metadata map[string]json.RawMessage
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil || metadata == nil {
		return nil
	}
	if !hideIn(key, where+"\x00annotations", metadata, "annotations", lastApplied) {
		return nil
	}
	var ok bool
	if object["metadata"], ok = encode(metadata); !ok {
		return nil
	}
	out, _ := encode(object)
	return out
}

// hideIn replaces the values of a member, or only one of them. It returns false if the member has an invalid type.
func hideIn(key []byte, where string, object map[string]json.RawMessage, member, only string) (ok bool) {
	raw, there := object[member]
	if !there {
		return true
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return false
	}
	for name, value := range values {
		if (only == "" || name == only) && !isHash(value) {
			values[name] = hash(key, where+"\x00"+name, value)
		}
	}
	object[member], ok = encode(values)
	return ok
}

func hash(key []byte, where string, value []byte) json.RawMessage {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(where + "\x00")) // it does not fail
	_, _ = h.Write(value)
	return json.RawMessage(`"` + HashPrefix + hex.EncodeToString(h.Sum(nil)[:hashBytes]) + `"`)
}

// hashBytes is how many bytes of a hash are kept.
const hashBytes = 16

func isHash(value []byte) bool {
	digits, found := bytes.CutPrefix(bytes.Trim(value, `"`), []byte(HashPrefix))
	_, err := hex.DecodeString(string(digits))
	return found && err == nil && len(digits) == 2*hashBytes
}

func encode(values map[string]json.RawMessage) (json.RawMessage, bool) {
	out, err := json.Marshal(values)
	return out, err == nil
}
