package fieldmanager

import (
	"cmp"
	"slices"
	"unicode/utf8"
	"unsafe"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxUpdaters is the number of entries of operation Update that an object keeps: upstream merges the oldest beyond it.
const maxUpdaters = 10

// mostEntries is how many entries are read here: each is compared with all before it. Upstream's manager takes 30,000, as a body of 3 MiB may
// have, in less time.
const mostEntries = 1000

// entry is one entry of managedFields.
type entry struct {
	id      identity
	version string
	time    *metav1.Time
	set     pathSet // valid where text is empty
	text    string  // the set as it was read
}

// identity distinguishes entries.
type identity struct {
	manager     string
	operation   metav1.ManagedFieldsOperationType
	version     string // empty for Apply: an applier keeps one entry across versions
	subresource string
}

func newIdentity(manager string, operation metav1.ManagedFieldsOperationType, version, subresource string) identity {
	if operation == metav1.ManagedFieldsOperationApply {
		version = ""
	}
	return identity{manager, operation, version, subresource}
}

// readEntries reads the managedFields of an object. reason is not empty where an entry is invalid or duplicate.
func readEntries(fields []metav1.ManagedFieldsEntry) (out []entry, reason string) {
	if len(fields) > mostEntries {
		return nil, "many managers"
	}
	out = make([]entry, 0, len(fields)+1)
	for i := range fields {
		e, ok := readEntry(&fields[i])
		if !ok {
			return nil, "foreign managedFields"
		}
		if slices.ContainsFunc(out, func(o entry) bool { return o.id == e.id }) {
			return nil, "foreign managedFields"
		}
		out = append(out, e)
	}
	return out, ""
}

func readEntry(f *metav1.ManagedFieldsEntry) (entry, bool) {
	switch f.Operation {
	case metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate:
	default:
		return entry{}, false
	}
	if f.APIVersion == "" || f.FieldsType != "FieldsV1" || f.FieldsV1 == nil {
		return entry{}, false
	}
	// The names of managers are encoded as JSON later, which replaces invalid UTF-8.
	if !utf8.ValidString(f.Manager) || !utf8.ValidString(f.APIVersion) || !utf8.ValidString(f.Subresource) {
		return entry{}, false
	}
	raw := f.FieldsV1.GetRawBytes()
	if len(raw) == 0 {
		return entry{}, false
	}
	return entry{
		id:      newIdentity(f.Manager, f.Operation, f.APIVersion, f.Subresource),
		version: f.APIVersion,
		time:    f.Time,
		text:    unsafe.String(&raw[0], len(raw)), // the bytes of a FieldsV1 are never changed
	}, true
}

// paths returns the set of the entry.
func (e *entry) paths(a *arena) pathSet {
	if e.text != "" {
		set, _ := parsePathSet(a, e.text) // the caller has checked it
		return set
	}
	return e.set
}

// replace gives the entry another set.
func (e *entry) replace(s pathSet) { e.set, e.text = s, "" }

// lose removes fields from the entry. ok is false where the entry is not in the form in which this package writes it,
// or does not match the schema.
func (e *entry) lose(a *arena, fields pathSet, node *schemaNode) (ok bool) {
	if e.text == "" {
		e.set = e.set.minus(fields)
		return true
	}
	meets, ok := scanPathSet(e.text, node, fields)
	if ok && meets {
		e.replace(e.paths(a).minus(fields))
	}
	return ok
}

// owns reports whether the entry has any of the fields.
func (e *entry) owns(fields pathSet) bool {
	if e.text == "" {
		return e.set.meets(fields)
	}
	meets, _ := scanPathSet(e.text, anySet, fields)
	return meets
}

// empty reports whether the entry owns nothing.
func (e *entry) empty() bool { return e.text == "{}" || e.text == "" && len(e.set) == 0 }

// dropEmpty removes the entries that own nothing.
func dropEmpty(entries []entry) []entry {
	return slices.DeleteFunc(entries, func(e entry) bool { return e.empty() })
}

func countUpdaters(entries []entry) int {
	n := 0
	for i := range entries {
		if entries[i].id.operation == metav1.ManagedFieldsOperationUpdate {
			n++
		}
	}
	return n
}

// writeEntries returns managedFields in their order: by operation, time, manager, version and subresource.
func writeEntries(entries []entry) []metav1.ManagedFieldsEntry {
	if len(entries) == 0 {
		return nil
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(
			cmp.Compare(a.id.operation, b.id.operation),
			cmp.Compare(unix(a.time), unix(b.time)),
			cmp.Compare(a.id.manager, b.id.manager),
			cmp.Compare(a.version, b.version),
			cmp.Compare(a.id.subresource, b.id.subresource))
	})
	out := make([]metav1.ManagedFieldsEntry, len(entries))
	for i := range entries {
		e := &entries[i]
		out[i] = metav1.ManagedFieldsEntry{
			Manager:     e.id.manager,
			Operation:   e.id.operation,
			APIVersion:  e.version,
			Time:        e.time,
			FieldsType:  "FieldsV1",
			FieldsV1:    e.fields(),
			Subresource: e.id.subresource,
		}
	}
	return out
}

func unix(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}

func (e *entry) fields() *metav1.FieldsV1 {
	var raw []byte
	if e.text != "" {
		raw = unsafe.Slice(unsafe.StringData(e.text), len(e.text)) // the bytes it was read from
	} else {
		raw = e.set.appendJSON(make([]byte, 0, e.set.size()))
	}
	return &metav1.FieldsV1{Raw: raw} //nolint:staticcheck // SetRawBytes would copy
}

// size is the length of the set's text, or a little more.
func (s pathSet) size() int {
	n := 2
	for i := range s {
		n += len(s[i].element) + len(`"":{".":{},},`) + s[i].sub.size()
	}
	return n
}
