package openapi

import (
	"slices"
	"time"
	"weak"

	"github.com/rowlock/rowlock/resources"
)

// recentBytes bounds the uncompressed documents, and singleBytes each of them.
const (
	recentBytes = 4 << 20
	singleBytes = recentBytes / 2
)

// recent has the last forms that are not compressed yet: most documents are requested once, and compressing one takes as long as making it. Forms
// in excess of recentBytes are compressed, and all of them when the server is idle. It is guarded by the handler's building.
type recent struct {
	forms []recentForm // oldest first
	bytes int
}

// recentForm is a form with its document, which lives no longer than its catalog.
type recentForm struct {
	of weak.Pointer[document]
	as encoding
	*form
}

// keepRecent is keep for a form that need not be compressed yet.
func (s *source) keepRecent(d *document, e encoding, data []byte, etag string, modified time.Time) error {
	if d.format.name == nameV2 || len(data) > singleBytes { // version 2 is sent compressed
		return d.keep(e, data, etag, modified)
	}
	f := &form{etag: etag, modified: modified, text: data}
	d.forms[e].Store(f)
	s.recent.forms = append(s.recent.forms, recentForm{weak.Make(d), e, f})
	s.recent.bytes += len(data)
	return s.recent.compress(s.registry.Catalog(), recentBytes) // the catalog may be a later one than the request's
}

// compress compresses the oldest forms until the rest has no more than that many bytes. A document that is gone, or describes a former state of its
// group, is just dropped, because it is not requested any more.
func (r *recent) compress(c *resources.Catalog, most int) error {
	for r.bytes > most {
		oldest := r.forms[0]
		r.forms = slices.Delete(r.forms, 0, 1)
		r.bytes -= len(oldest.text)
		if d := oldest.of.Value(); d != nil && d.isOf(c) && d.forms[oldest.as].Load() == oldest.form {
			if err := d.keep(oldest.as, oldest.text, oldest.etag, oldest.modified); err != nil {
				return err
			}
		}
	}
	if len(r.forms) == 0 {
		r.forms = nil
	}
	return nil
}

// isOf tells whether a document may belong to a catalog.
func (d *document) isOf(c *resources.Catalog) bool {
	if d.of == nil {
		return true
	}
	now, _ := c.Group(d.of.Name)
	return now == d.of
}
