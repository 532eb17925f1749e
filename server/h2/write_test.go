package h2

import (
	"bytes"
	"testing"
)

// The frames of streams stay intact while conn.out grows, and its buffers are those of the pools, whatever is appended: buffers from append would
// leave several times the sent bytes as garbage. They are no larger than necessary, because a client that reads nothing retains one.
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
