package disk

import (
	"bytes"
	"syscall"
	"testing"
)

func made(t *testing.T, d *Disk, name string) *file {
	t.Helper()
	f, errno := d.create(name)
	if errno != 0 {
		t.Fatal(errno)
	}
	return f
}

func write(t *testing.T, d *Disk, f *file, at int64, data []byte) {
	t.Helper()
	if n, errno := d.write(f, data, at); errno != 0 || n != len(data) {
		t.Fatalf("%d of %d bytes: %v", n, len(data), errno)
	}
}

func flush(t *testing.T, d *Disk, f *file) {
	t.Helper()
	if errno := d.flush(f); errno != 0 {
		t.Fatal(errno)
	}
}

// TestPowerCut checks that a power cut keeps flushed data. Of the rest it keeps nothing, all, or parts, and each of these happens.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	before, after := bytes.Repeat([]byte("a"), 4*sector), bytes.Repeat([]byte("b"), 4*sector)
	seen := map[string]int{}
	for seed := range uint64(200) {
		d := New(seed)
		f := made(t, d, "database")
		write(t, d, f, 0, before)
		flush(t, d, f)
		if errno := d.flushDirectory(); errno != 0 {
			t.Fatal(errno)
		}
		write(t, d, f, 0, after)
		write(t, d, f, int64(len(after)), after)
		made(t, d, "new")
		d.CutPower()
		if d.lookup("new") == nil {
			seen["name lost"]++
		}
		got := d.lookup("database")
		if got == nil {
			t.Fatalf("seed %d: a file is gone whose name was flushed", seed)
		}
		if len(got.data) < len(before) {
			t.Fatalf("seed %d: %d bytes are left, %d were flushed", seed, len(got.data), len(before))
		}
		for i := 0; i < len(before); i += sector {
			if s := got.data[i : i+sector]; !bytes.Equal(s, before[:sector]) && !bytes.Equal(s, after[:sector]) {
				t.Fatalf("seed %d: half a sector", seed)
			}
		}
		switch {
		case bytes.Equal(got.data, before):
			seen["nothing"]++
		case bytes.Equal(got.data, append(bytes.Clone(after), after...)):
			seen["everything"]++
		default:
			seen["torn"]++
		}
	}
	for _, what := range []string{"nothing", "everything", "torn", "name lost"} {
		if seen[what] < 10 {
			t.Errorf("of 200 power cuts, these were %s: %d", what, seen[what])
		}
	}
}

// TestFailedFlush checks that data of a failed flush may be lost, although the next flush succeeds.
func TestFailedFlush(t *testing.T) {
	t.Parallel()
	lost := 0
	for seed := range uint64(50) {
		d := New(seed)
		f := made(t, d, "database")
		write(t, d, f, 0, []byte("x"))
		d.Break(Fault{Flush: syscall.EIO})
		if errno := d.flush(f); errno != syscall.EIO {
			t.Fatal(errno)
		}
		d.Break(Fault{})
		flush(t, d, f)
		_ = d.flushDirectory()
		d.CutPower()
		if d.Size("database") == 0 {
			lost++
		}
	}
	if lost < 10 || lost > 40 {
		t.Errorf("%d of 50 were lost", lost)
	}
}

// TestFull checks that a full disk takes data that fits, and changes in place.
func TestFull(t *testing.T) {
	t.Parallel()
	d := New(1)
	f := made(t, d, "database")
	write(t, d, f, 0, []byte("0123456789"))
	d.Break(Fault{Full: true, Room: 2})
	if n, errno := d.write(f, []byte("abcdef"), 8); n != 4 || errno != 0 {
		t.Errorf("%d bytes, %v", n, errno)
	}
	if n, errno := d.write(f, []byte("x"), 12); n != 0 || errno != syscall.ENOSPC {
		t.Errorf("%d bytes, %v", n, errno)
	}
	write(t, d, f, 0, []byte("in place"))
	if got := string(f.data); got != "in place"+"abcd" {
		t.Errorf("%q", got)
	}
}

// TestKillAt checks that a process is killed at the given call after a flush, and that nothing it does after that happens.
func TestKillAt(t *testing.T) {
	t.Parallel()
	for moment, want := range map[Moment]string{Before: "first", Amid: "firstse", After: "firstseco"} {
		d := New(1)
		f := made(t, d, "database")
		deaths := 0
		killed := d.KillAt(1, moment, func() { deaths++ })
		write(t, d, f, 0, []byte("fi")) // calls before the flush do not count
		flush(t, d, f)
		write(t, d, f, 2, []byte("rst"))
		if deaths > 0 {
			t.Fatal("killed too early")
		}
		_, errno := d.write(f, []byte("seco"), 5)
		select {
		case <-killed:
		default:
			t.Fatal("not killed")
		}
		if deaths != 1 || errno != 0 != (moment != After) {
			t.Errorf("moment %d: %d deaths, %v", moment, deaths, errno)
		}
		if _, errno := d.write(f, []byte("more"), 0); errno == 0 {
			t.Error("the dead write")
		}
		if got := string(f.data); got != want {
			t.Errorf("moment %d: %q, not %q", moment, got, want)
		}
		if !d.Spare() {
			t.Error("nobody was killed")
		}
		write(t, d, f, 0, []byte("x"))
	}
}

// TestSpoil checks that a page is restored unless it was written since.
func TestSpoil(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{false, true} {
		d := New(1)
		f := made(t, d, "database")
		write(t, d, f, 0, []byte("aabbcc"))
		if d.Start("else", 1) != nil || string(d.Start("database", 4)) != "aabb" || len(d.Start("database", 7)) != 6 {
			t.Error("it begins otherwise")
		}
		if d.Spoil("database", 3, []byte("xx")) || !d.Spoil("database", 1, []byte("xx")) {
			t.Fatal("there are three pages")
		}
		if got := string(f.data); got != "aaxxcc" {
			t.Errorf("%q", got)
		}
		want := "aabbcc"
		if written {
			write(t, d, f, 2, []byte("dd"))
			want = "aaddcc"
		}
		d.Mend("database")
		if got := string(f.data); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
