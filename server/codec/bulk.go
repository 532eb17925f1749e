package codec

import (
	"runtime"

	"github.com/rowlock/rowlock/resources"
)

// bulk is what a Renderer knows of the many objects that it renders for one request.
type bulk struct {
	paced   bool   // of so many no message is kept, and garbage is collected in between
	decoded int    // bytes, since garbage was collected
	message []byte // that was made last, of those that are not kept
}

// Where so many objects are rendered, the garbage of those that have to be decoded is collected each time so many bytes
// were: they leave ten times that behind, and the collector by itself would let it become as much as all that is alive.
// A list of a hundred thousand objects would double the memory of the process.
const (
	pacedObjects = 10_000
	pacedBytes   = 4 << 20
)

// Bulk says how many objects are rendered from now on. Of many, what is made for each is kept only where there is room;
// the messages of more than there would be room for are not, because they would take the room from those that are used
// again.
func (r *Renderer) Bulk(objects int) {
	r.bulk = nil
	if objects > 1 {
		r.bulk = &bulk{paced: objects >= pacedObjects}
	}
}

// form returns an encoding of an object, built if it was not kept.
func (r *Renderer) form(o *resources.Object, id string, build func() ([]byte, error)) ([]byte, error) {
	if r.bulk == nil {
		return o.Form(id, build)
	}
	return o.FormIfRoom(id, func() ([]byte, error) {
		r.bulk.pace(len(o.Data))
		return build()
	})
}

// pace takes up that so many bytes are to be decoded.
func (b *bulk) pace(bytes int) {
	if b.decoded += bytes; b.paced && b.decoded > pacedBytes {
		b.decoded = 0
		runtime.GC()
	}
}
