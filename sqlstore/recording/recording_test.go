package recording

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStrip(t *testing.T) {
	const object = `{"kind":"A","metadata":{"managedFields":[{"a":"}"}],"name":"a","resourceVersion":"7","labels":{"resourceVersion":"1"}},"spec":{"managedFields":1}}`
	const want = `{"kind":"A","metadata":{"name":"a","labels":{"resourceVersion":"1"}},"spec":{"managedFields":1}}`
	if got := string(Strip([]byte(object))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(Strip([]byte(`{"metadata":{"resourceVersion":"1"}}`))); got != `{"metadata":{}}` {
		t.Errorf("got %s", got)
	}
}

func TestChanged(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		want                []string
		heartbeat           bool
	}{
		{"nothing", `{"a":1}`, `{"a":1}`, []string{}, false},
		{"another order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, []string{}, false},
		{"a value", `{"spec":{"replicas":1,"x":2}}`, `{"spec":{"replicas":2,"x":2}}`, []string{"spec.replicas"}, false},
		{"more and less", `{"a":{"b":1,"c":1}}`, `{"a":{"c":1,"d":1}}`, []string{"a.d", "a.b"}, false},
		{"null is a value", `{"a":{"b":null}}`, `{"a":{}}`, []string{"a.b"}, false},
		{"by name", `{"c":[{"name":"a","i":1},{"name":"b","i":1}]}`, `{"c":[{"name":"x"},{"name":"b","i":2}]}`,
			[]string{"c[name=x]", "c[name=b].i", "c[name=a]"}, false},
		{"by type", `{"c":[{"type":"Ready","s":1}]}`, `{"c":[{"type":"Ready","s":2}]}`, []string{"c[type=Ready].s"}, false},
		{"two of a name", `{"c":[{"name":"a"},{"name":"a"}]}`, `{"c":[{"name":"a"},{"name":"b"}]}`, []string{"c[1].name"}, false},
		{"another length", `{"c":[1,2]}`, `{"c":[1]}`, []string{"c"}, false},
		{"odd keys", `{"m":{"a.b/c":1}}`, `{"m":{"a.b/c":2}}`, []string{"m[a.b/c]"}, false},
		{"heartbeats", `{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":1}]}}`,
			`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":2}]}}`, []string{"status.conditions[type=Ready].lastHeartbeatTime"}, true},
		{"a heartbeat and more", `{"status":{"a":1,"lastProbeTime":1,"s":{"renewTime":1}}}`, `{"status":{"a":2,"lastProbeTime":2,"s":{"renewTime":2}}}`,
			[]string{"status.a", "status.lastProbeTime", "status.s.renewTime"}, false},
		{"data of the name", `{"data":{"renewTime":"1"}}`, `{"data":{"renewTime":"2"}}`, []string{"data.renewTime"}, false},
		{"a specification of the name", `{"spec":{"lastProbeTime":1}}`, `{"spec":{"lastProbeTime":2}}`, []string{"spec.lastProbeTime"}, false},
		{"a label of the name", `{"metadata":{"labels":{"lastHeartbeatTime":"1"}}}`, `{"metadata":{"labels":{"lastHeartbeatTime":"2"}}}`,
			[]string{"metadata.labels.lastHeartbeatTime"}, false},
	} {
		got := Changed([]byte(c.before), []byte(c.after))
		if diff := cmp.Diff(Changes{c.want, c.heartbeat}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// However much differs, only little is kept of it; a change beyond the bound is still seen to be no heartbeat.
func TestChangedIsBounded(t *testing.T) {
	var before, after strings.Builder
	before.WriteString(`{"status":{"a":0`)
	after.WriteString(`{"status":{"a":0`)
	for range 2 * pathsMax {
		key := strings.Repeat("é", pathMax) + string(rune('a'+rand.IntN(26))) + strings.Repeat("x", rand.IntN(50))
		before.WriteString(`,"` + key + `":{"lastHeartbeatTime":1}`)
		after.WriteString(`,"` + key + `":{"lastHeartbeatTime":2}`)
	}
	got := Changed([]byte(before.String()+"}}"), []byte(after.String()+`,"z":1}}`))
	if n := len(got.Paths); n != pathsMax+1 || got.Paths[n-1] != More || got.Heartbeat {
		t.Errorf("%d paths, heartbeat %t", n, got.Heartbeat)
	}
	for _, p := range got.Paths {
		if len(p) > pathMax+len(More) {
			t.Errorf("a path of %d bytes", len(p))
		}
	}
}

func TestPack(t *testing.T) {
	var p Packer
	for _, c := range [][2]string{{"", "{}"}, {"{}", "{}"}, {`{"a":1}`, `{"a":11}`}, {"aaaa", "aa"}, {"aa", "aaaa"}, {"abc", ""}, {"", ""}} {
		var before []byte
		if c[0] != "" {
			before = []byte(c[0])
		}
		packed := p.Pack(before, []byte(c[1]), []byte(c[0]))
		gotBefore, gotAfter, err := Unpack(packed, []byte(c[0]))
		if err != nil || !bytes.Equal(gotBefore, before) || (gotBefore == nil) != (before == nil) || string(gotAfter) != c[1] {
			t.Errorf("%q: %q, %q, %v", c, gotBefore, gotAfter, err)
		}
	}
	large := make([]byte, 300<<10)
	for i := range large {
		large[i] = byte(rand.Uint32())
	}
	after := bytes.Clone(large)
	after[len(after)/2]++
	packed := p.Pack(large, after, nil)
	if _, got, err := Unpack(packed, nil); err != nil || !bytes.Equal(got, after) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if len(packed) > len(large)+1024 {
		t.Errorf("%d bytes of random ones, of which one changed, are packed into %d", len(large), len(packed))
	}
}

// A row with a changed bit is refused, and not taken for another object; rows of earlier releases can still be read.
func TestUnpackFindsDamage(t *testing.T) {
	var p Packer
	before, after := []byte(`{"kind":"ConfigMap","data":{"a":"one, two, three"}}`), []byte(`{"kind":"ConfigMap","data":{"a":"one, two, four"}}`)
	about := []byte("ann, at noon")
	packed := p.Pack(before, after, about)
	if _, got, err := Unpack(packed[:len(packed)-crc32.Size], about); err != nil || !bytes.Equal(got, after) {
		t.Errorf("without a checksum: %q, %v", got, err)
	}
	if _, got, err := Unpack(p.Pack(before, after, nil), about); err != nil || !bytes.Equal(got, after) {
		t.Errorf("with one of the objects alone: %q, %v", got, err)
	}
	for i := range len(about) * 8 {
		damaged := bytes.Clone(about)
		damaged[i/8] ^= 1 << (i % 8)
		if _, _, err := Unpack(packed, damaged); err == nil {
			t.Errorf("said is %q, and nobody notices", damaged)
		}
	}
	for i := range len(packed) * 8 {
		damaged := bytes.Clone(packed)
		damaged[i/8] ^= 1 << (i % 8)
		gotBefore, gotAfter, err := Unpack(damaged, about)
		if err == nil && !(bytes.Equal(gotBefore, before) && bytes.Equal(gotAfter, after)) {
			t.Errorf("bit %d: %q, %q", i, gotBefore, gotAfter)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	var p Packer
	f.Add(p.Pack(nil, []byte("{}"), nil))
	f.Add(p.Pack([]byte(`{"a":1}`), []byte(`{"a":2}`), nil))
	f.Fuzz(func(_ *testing.T, packed []byte) { _, _, _ = Unpack(packed, nil) })
}

// No value of a Secret is kept, and a value that is the same as earlier has the same hash.
func TestHideValues(t *testing.T) {
	key := []byte("key")
	object := func(value string) []byte {
		return []byte(`{"kind":"Secret","metadata":{"name":"s","annotations":{"a":"b","` + lastApplied + `":"{\"data\":\"` + value + `\"}"}},"data":{"p":"` + value + `","q":"same"}}`)
	}
	a := HideValues(key, "secrets/ns/s", object("marker-one"))
	b := HideValues(key, "secrets/ns/s", object("marker-two"))
	for _, hidden := range [][]byte{a, b} {
		if hidden == nil || bytes.Contains(hidden, []byte("marker")) || !bytes.Contains(hidden, []byte(`"a":"b"`)) {
			t.Errorf("%s", hidden)
		}
	}
	want := []string{"data.p", "metadata.annotations[" + lastApplied + "]"}
	if got := Changed(a, b).Paths; !cmp.Equal(got, want) {
		t.Errorf("changed: %v", got)
	}
	if again := HideValues(key, "secrets/ns/s", object("marker-one")); !bytes.Equal(a, again) {
		t.Errorf("%s\n%s", a, again)
	}
	if again := HideValues([]byte("other"), "secrets/ns/s", a); !bytes.Equal(a, again) {
		t.Errorf("what is hidden is hidden again:\n%s\n%s", a, again)
	}
	for _, other := range [][]byte{HideValues([]byte("other"), "secrets/ns/s", object("marker-one")), HideValues(key, "secrets/ns/t", object("marker-one"))} {
		if got := Changed(a, other).Paths; len(got) != 3 {
			t.Errorf("with another key, or of another Secret, changed are %v", got)
		}
	}
	for _, odd := range []string{``, `[]`, `{"metadata":{},"data":[1]}`, `{"data":{}}`, `{"metadata":{"annotations":7}}`} {
		if got := HideValues(key, "", []byte(odd)); got != nil {
			t.Errorf("of %s: %s", odd, got)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	before := []byte(`{"kind":"Pod","metadata":{"name":"a","resourceVersion":"1","managedFields":[` + strings.Repeat(`{"f:a":{}},`, 80) + `{}]},"spec":{"containers":[` +
		strings.Repeat(`{"name":"a","image":"registry.example.com/some/image:v1","env":[{"name":"A","value":"B"}]},`, 25) + `{}]},"status":{"phase":"Pending"}}`)
	after := bytes.Replace(before, []byte("Pending"), []byte("Running"), 1)
	var p Packer
	b.ReportAllocs()
	for b.Loop() {
		x, y := Strip(before), Strip(after)
		if len(Changed(x, y).Paths) != 1 {
			b.Fatal("not one path")
		}
		p.Pack(x, y, nil)
	}
}

// The time to compare two states is neither their size times their depth, nor the length of a name times the number of
// members below it: a client could nest lists, or name a member, without end.
func TestChangedInTime(t *testing.T) {
	deep := func(leaf string) []byte {
		return []byte(`{"spec":` + strings.Repeat("[", 9000) + `"` + strings.Repeat("x", 1<<18) + leaf + `"` + strings.Repeat("]", 9000) + `}`)
	}
	long := func(leaf string) []byte {
		return []byte(`{"` + strings.Repeat("k", 1<<19) + `":[` + strings.Repeat(leaf+",", 1<<16) + leaf + `]}`)
	}
	for want, states := range map[string]func(string) []byte{"spec" + strings.Repeat("[0]", depthMax-1): deep, strings.Repeat("k", pathMax) + More: long} {
		begun := time.Now()
		if got := Changed(states("1"), states("2")).Paths; got[0] != want {
			t.Errorf("%s differs, want %s", got[0], want)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s took %v", want, took)
		}
	}
}
