package typedjson

import (
	"bytes"
	"encoding/base64"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/jsonscan"
	"github.com/rowlock/rowlock/resources/upstream"
)

// Decode reads the JSON of an object into obj, a pointer to an empty struct, as UnmarshalStrict of sigs.k8s.io/json does. When
// ok is false, the object is not covered or invalid: a field that is unknown or duplicate, a value of another kind, a text that
// is not JSON, more than jsonscan.MostElements elements of lists, a quantity that takes long to read. obj must then be discarded.
//
// Strings of the object are parts of data, which must not be changed any more. A caller that keeps a string for longer than the
// object clones it, or keeps all of data with it.
func Decode(data []byte, obj any) (ok bool) {
	if !fastpath.JSONDecode.On() {
		return false
	}
	if ok = decode(data, obj, false); !ok {
		fastpath.JSONDecode.Fallback()
	}
	return ok
}

// DecodeStored is like Decode, for the output of Append or AppendStored: a null for a time that is omitted when nil stands for
// the zero time. kube-apiserver, which stores protobuf, distinguishes the two. Since no other package does, this one reads such
// a null even where the fast path is off.
func DecodeStored(data []byte, obj any) (ok bool) {
	if !fastpath.JSONDecode.On() && !HasNull(data) {
		return false
	}
	if ok = decode(data, obj, true); !ok {
		fastpath.JSONDecode.Fallback()
	}
	return ok
}

// HasNull reports whether stored data may contain a time that only DecodeStored reads right.
func HasNull(data []byte) bool { return bytes.Contains(data, nullMember) }

var nullMember = []byte(":null")

func decode(data []byte, obj any, stored bool) (ok bool) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return false
	}
	r := readerOf(v.Type().Elem())
	if r == nil {
		return false
	}
	d := jsonscan.New(data)
	d.Stored = stored
	return d.Peek() == '{' && r(&d, v.UnsafePointer()) && d.End()
}

// reader reads a value into p, which points to the zero value of its type.
type reader func(d *jsonscan.Scanner, p unsafe.Pointer) bool

// readStruct reads along the fields of a struct.
func (s *structReader) readStruct(d *jsonscan.Scanner, p unsafe.Pointer) bool {
	if !d.Take('{') {
		return d.Null()
	}
	if !d.Deeper() {
		return false
	}
	defer d.Up()
	if d.Take('}') {
		return true
	}
	var seen [maxFields / 64]uint64
	for next := 0; ; next++ {
		key, ok := d.Text()
		if !ok || !d.Take(':') {
			return false
		}
		if next = s.find(key, next); next < 0 {
			return false
		}
		word, bit := &seen[next/64], uint64(1)<<(next%64)
		if *word&bit != 0 {
			return false
		}
		*word |= bit
		f := &s.fields[next]
		if !f.read(d, unsafe.Add(p, f.offset)) {
			return false
		}
		if !d.Take(',') {
			return d.Take('}')
		}
	}
}

// find returns the field with a name, -1 if there is none. Texts nearly always have the fields in the order of the struct, with
// gaps: from is where the field is expected.
func (s *structReader) find(name string, from int) int {
	for i := from; i < len(s.fields) && i < from+4; i++ {
		if s.fields[i].name == name {
			return i
		}
	}
	if i, ok := s.byName[name]; ok {
		return i
	}
	return -1
}

func readString(d *jsonscan.Scanner, p unsafe.Pointer) bool {
	if d.Peek() != '"' {
		return d.Null()
	}
	s, ok := d.Text()
	*(*string)(p) = s
	return ok
}

func readBool(d *jsonscan.Scanner, p unsafe.Pointer) bool {
	switch d.Peek() {
	case 't':
		*(*bool)(p) = true
		return d.Word("true")
	case 'f':
		return d.Word("false")
	}
	return d.Null()
}

// readInt reads an integer with the given number of bits.
func readInt(bits int, set func(p unsafe.Pointer, n int64)) reader {
	return func(d *jsonscan.Scanner, p unsafe.Pointer) bool {
		if d.Peek() == 'n' {
			return d.Null()
		}
		text, integer, ok := d.Number()
		if !ok || !integer {
			return false
		}
		n, err := strconv.ParseInt(text, 10, bits)
		if err != nil {
			return false
		}
		set(p, n)
		return true
	}
}

func readFloat64(d *jsonscan.Scanner, p unsafe.Pointer) bool {
	if d.Peek() == 'n' {
		return d.Null()
	}
	text, _, ok := d.Number()
	if !ok {
		return false
	}
	n, err := strconv.ParseFloat(text, 64)
	*(*float64)(p) = n
	return err == nil
}

// readBytes reads []byte, which is base64 in JSON.
func readBytes(d *jsonscan.Scanner, p unsafe.Pointer) bool {
	if d.Peek() != '"' {
		return d.Null()
	}
	s, ok := d.Text()
	if !ok {
		return false
	}
	data, err := base64.StdEncoding.DecodeString(s)
	*(*[]byte)(p) = data
	return err == nil
}

// readTime reads the same as metav1.Time.
func readTime(d *jsonscan.Scanner, p unsafe.Pointer) bool {
	if d.Peek() != '"' {
		return d.Null()
	}
	s, ok := d.Text()
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	*(*metav1.Time)(p) = metav1.Time{Time: t.Local()}
	return err == nil
}

// readStoredTime reads a pointer to a time that is omitted when it is nil.
func readStoredTime(t reflect.Type, read reader) reader {
	return func(d *jsonscan.Scanner, p unsafe.Pointer) bool {
		if d.Stored && d.Peek() == 'n' {
			*(*unsafe.Pointer)(p) = reflect.New(t).UnsafePointer()
		}
		return read(d, p)
	}
}

// readStrings reads labels and the like, without the cost of reflection.
func readStrings(d *jsonscan.Scanner, p unsafe.Pointer) bool {
	if d.Peek() != '{' {
		return d.Null()
	}
	m := map[string]string{}
	*(*map[string]string)(p) = m
	return d.Members(func(key string) bool {
		var value string
		if !readString(d, unsafe.Pointer(&value)) {
			return false
		}
		before := len(m)
		m[key] = value
		return len(m) > before
	})
}

func readPointer(t reflect.Type, read reader) reader {
	return func(d *jsonscan.Scanner, p unsafe.Pointer) bool {
		if d.Peek() == 'n' {
			return d.Null()
		}
		to := reflect.New(t).UnsafePointer()
		*(*unsafe.Pointer)(p) = to
		return read(d, to)
	}
}

func readList(t reflect.Type, read reader) reader {
	size := t.Elem().Size()
	return func(d *jsonscan.Scanner, p unsafe.Pointer) bool {
		if d.Peek() != '[' {
			return d.Null()
		}
		list := reflect.NewAt(t, p).Elem()
		list.Set(reflect.MakeSlice(t, 0, 0))
		n := 0
		return d.Elements(func() bool {
			if n++; !d.List() {
				return false
			}
			list.Grow(1)
			list.SetLen(n)
			return read(d, unsafe.Add(list.UnsafePointer(), uintptr(n-1)*size))
		})
	}
}

func readMap(t reflect.Type, read reader) reader {
	return func(d *jsonscan.Scanner, p unsafe.Pointer) bool {
		if d.Peek() != '{' {
			return d.Null()
		}
		m := reflect.MakeMap(t)
		reflect.NewAt(t, p).Elem().Set(m)
		key := reflect.New(t.Key()).Elem()
		return d.Members(func(name string) bool {
			value := reflect.New(t.Elem())
			if !read(d, value.UnsafePointer()) {
				return false
			}
			before := m.Len()
			key.SetString(name)
			m.SetMapIndex(key, value.Elem())
			return m.Len() > before
		})
	}
}

// readQuantity reads a quantity that is quickly read: the caller decides about others.
func readQuantity(d *jsonscan.Scanner, p unsafe.Pointer) bool {
	data, ok := d.Raw()
	return ok && !upstream.CostlyQuantity(strings.Trim(string(data), `"`)) && (*resource.Quantity)(p).UnmarshalJSON(data) == nil
}

// readItself reads a type by its own UnmarshalJSON.
func readItself(t reflect.Type) reader {
	return func(d *jsonscan.Scanner, p unsafe.Pointer) bool {
		data, ok := d.Raw()
		return ok && reflect.NewAt(t, p).Interface().(unmarshaler).UnmarshalJSON(data) == nil
	}
}
