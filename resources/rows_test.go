package resources

import "testing"

func TestInternal(t *testing.T) {
	d, err := InternalDraft("Thing", "a", map[string]int{"n": 7})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"kind":"Thing","apiVersion":"rowlock.internal/v1","metadata":{"name":"a","resourceVersion":"0"},"spec":{"n":7}}`
	if string(d.Data) != want || string(d.Data[d.RevisionStart:d.RevisionEnd]) != PlaceholderRevision {
		t.Errorf("%s, revision at %d", d.Data, d.RevisionStart)
	}
	var spec struct{ N int }
	if err := DecodeInternal(&Object{Data: d.Data}, &spec); err != nil || spec.N != 7 {
		t.Errorf("%v %v", spec, err)
	}
	if err := DecodeInternal(&Object{Data: []byte("{}")}, &spec); err == nil {
		t.Error("a row without a spec was read")
	}
}
