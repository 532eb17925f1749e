package recording

import (
	"unsafe"

	"github.com/tidwall/gjson"
)

// Strip returns an object, as JSON, without its resourceVersion, which is the revision of the write, and without
// managedFields, which are a third of many objects and answer the same question as the history in another way.
func Strip(data []byte) []byte {
	out := make([]byte, 0, len(data))
	return appendMembers(out, text(data), func(out []byte, k, v gjson.Result) []byte {
		if k.Raw != `"metadata"` {
			return appendMember(out, k.Raw, v.Raw)
		}
		out = append(append(separated(out), k.Raw...), ':')
		return appendMembers(out, v.Raw, func(out []byte, k, v gjson.Result) []byte {
			if k.Raw == `"resourceVersion"` || k.Raw == `"managedFields"` {
				return out
			}
			return appendMember(out, k.Raw, v.Raw)
		})
	})
}

// appendMembers appends an object whose members each appends for the members of another object.
func appendMembers(out []byte, object string, each func(out []byte, k, v gjson.Result) []byte) []byte {
	out = append(out, '{')
	gjson.Parse(object).ForEach(func(k, v gjson.Result) bool {
		out = each(out, k, v)
		return true
	})
	return append(out, '}')
}

func appendMember(out []byte, key, value string) []byte {
	return append(append(append(separated(out), key...), ':'), value...)
}

// separated appends a comma, except before the first member.
func separated(out []byte) []byte {
	if out[len(out)-1] == '{' {
		return out
	}
	return append(out, ',')
}

// text returns data as a string, without a copy: the data are not changed.
func text(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }
