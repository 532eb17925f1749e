package handlers

import (
	"io"
	"net/http"

	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/runs"
)

// runsRoom is how many bytes of compressed runs of lists are cached.
const runsRoom = 16 << 20

// joined writes a compressed list that consists of runs, most of which may be cached.
func (q *request) joined(l *codec.Items) error {
	sayGzip(q.w.Header())
	q.w.WriteHeader(http.StatusOK)
	_ = inChunks(q.w, !gathers(q.w), func(w io.Writer) error { return q.join(w, l) }) // the client is gone: the error cannot be reported
	return nil
}

// join writes the runs.
func (q *request) join(w io.Writer, l *codec.Items) error {
	j := runs.NewJoint(w)
	_, _ = j.Write(l.Head) // Close returns the error again
	form := q.served.FormID(l.Form, true)
	for from := 0; from < len(l.Objects); {
		to := endOfRun(l, from)
		run, err := q.runs.Get(form, l.Objects[from:to], func(w io.Writer) error { return l.Range(w, from, to) })
		if err != nil {
			q.abort()
			return err
		}
		if from > 0 && len(l.Separator) > 0 {
			_, _ = j.Write(l.Separator)
		}
		if err := j.Run(run); err != nil {
			return err
		}
		from = to
	}
	_, _ = j.Write(l.Tail)
	return j.Close()
}

// endOfRun returns the end of the run that begins with an item.
func endOfRun(l *codec.Items, from int) int {
	size := 0
	for i := from; i < len(l.Objects); i++ {
		size += len(l.Objects[i].Data)
		if size >= runs.Longest || runs.Cut(l.Objects[i]) {
			return i + 1
		}
	}
	return len(l.Objects)
}

// longerThan tells whether a list has more bytes. It renders no more of the list than necessary.
func longerThan(l *codec.Items, bytes int) bool {
	left := counter(bytes - len(l.Head) - len(l.Tail))
	for i := range l.Objects {
		if left < 0 {
			break
		}
		if i > 0 {
			left -= counter(len(l.Separator))
		}
		if err := l.Item(&left, i); err != nil {
			return false // the writer of the list gets the error again
		}
	}
	return left < 0
}

// counter is the remainder of a number of bytes.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c -= counter(len(p))
	return len(p), nil
}
