package h2

import (
	"bytes"
	"testing"
)

// The buffer of an unread body is moved once, to its full size. If a body declares more than it sends, the buffer never exceeds what may be sent at
// once.
func TestRoomOfBodies(t *testing.T) {
	const frame = 16 << 10
	for _, c := range []struct {
		what                  string
		declared, sent, moves int
		room                  int
	}{
		{"a small one", 300, 300, 1, 300},
		{"what has room at first", firstRoom, firstRoom, 1, firstRoom},
		{"a large one", 340 << 10, 340 << 10, 2, 340 << 10},
		{"one that declares much and sends little", 100 << 20, 10, 1, firstRoom},
		{"one that declares much", 100 << 20, 100 << 10, 2, streamWindow},
	} {
		b := &body{declared: int64(c.declared)}
		var want []byte
		room, moves := 0, 0
		for len(want) < c.sent {
			p := bytes.Repeat([]byte{byte(len(want) / frame)}, min(frame, c.sent-len(want)))
			want = append(want, p...)
			b.add(p)
			if cap(b.data) != room {
				room = cap(b.data)
				moves++
			}
		}
		if !bytes.Equal(b.data, want) || moves != c.moves || room != c.room {
			t.Errorf("%s: moved %d times, want %d; room for %d, want %d; the data are right: %v", c.what, moves, c.moves, room, c.room, bytes.Equal(b.data, want))
		}
	}
}
