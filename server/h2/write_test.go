package h2

import (
	"bytes"
	"testing"
)

// What streams gather stays as it is while its buffer becomes larger, and the buffers are those of the pools, whatever is gathered: what append makes
// would be garbage of several times what is sent. They are no larger than what is gathered needs, since a client that reads nothing has one kept.
func TestGatheringMakesNoGarbage(t *testing.T) {
	for _, piece := range []int{1, 17, 1400, smallRoom, copyMost} {
		c, want := &conn{}, []byte(nil)
		for i := 0; len(c.out) < outMost; i++ {
			p := bytes.Repeat([]byte{byte(i)}, piece)
			c.out, want = append(c.grownBy(piece), p...), append(want, p...)
			least := wideRoom
			for _, room := range []int{midRoom, outRoom} {
				if len(c.out) <= room {
					least = room
				}
			}
			if n := cap(c.out); n != least {
				t.Fatalf("%d bytes, %d at a time, are in a buffer of %d", len(c.out), piece, n)
			}
		}
		if !bytes.Equal(c.out, want) {
			t.Errorf("what was gathered, %d bytes at a time, is another", piece)
		}
		putOut(c.out)
	}
}
