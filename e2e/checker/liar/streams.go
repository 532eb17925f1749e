package liar

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// stream is a watch through the proxy.
type stream struct {
	*Proxy
	call *call
	held *frame           // a frame that was held back
	last map[string]frame // the last of each object
}

// frame is a frame of a stream.
type frame struct {
	raw    json.RawMessage
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
	object object
}

func frameOf(raw json.RawMessage) frame {
	f := frame{raw: raw}
	_ = json.Unmarshal(raw, &f) // other text has no type, and is passed on unchanged
	f.object = read(f.Object)
	return f
}

// typed is the frame with another type, or object.
func typed(eventType string, o json.RawMessage) frame {
	return frameOf(fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", eventType, o))
}

// change says whether the frame is an event about which the proxy may lie.
func (f *frame) change() bool {
	return (f.Type == history.Added || f.Type == history.Modified || f.Type == history.Deleted) && f.object.Metadata.Name != lastName
}

// begun says whether the stream began with a revision: all of its frames are changes, and every one shows its position.
func (s *stream) begun() bool {
	q := s.call.query
	return q.Get("resourceVersion") != "" && q.Get("resourceVersion") != "0" && !q.Has("sendInitialEvents")
}

func (s *stream) selects() bool { return s.call.query.Has("labelSelector") }

// stream passes a watch on, frame by frame.
func (p *Proxy) stream(w http.ResponseWriter, c *call) {
	response, err := c.send(p.server.Watches)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	s := &stream{Proxy: p, call: c, last: map[string]frame{}}
	defer func() {
		if s.held != nil { // the stream ended before a client could notice the gap
			p.settle(false)
		}
	}()
	for d := json.NewDecoder(response.Body); ; {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return
		}
		if !s.pass(w, frameOf(raw)) || flusher.Flush() != nil {
			return
		}
	}
}

// pass gives the client a frame, or the lie's version of it; false: the client is gone.
func (s *stream) pass(w http.ResponseWriter, f frame) bool {
	frames, lied := []frame{f}, false
	if s.lie.twist != nil {
		frames, lied = s.lie.twist(s, f)
	}
	s.last[f.object.Metadata.Name] = f
	for _, f := range frames {
		if _, err := w.Write(append(f.raw, '\n')); err != nil {
			if lied {
				s.settle(false)
			}
			return false
		}
	}
	if lied {
		s.settle(true)
	}
	return true
}

// lose leaves out the first event of a kind. It is a lie once another event follows.
func (s *stream) lose(f frame, is bool) ([]frame, bool) {
	switch {
	case s.held != nil && (f.Type == history.Bookmark || f.object.Metadata.Name != ""):
		s.held = nil
		return []frame{f}, true
	case s.held == nil && is && s.mayLie():
		s.held = &f
		return nil, false
	}
	return []frame{f}, false
}

func loseEvent(s *stream, f frame) ([]frame, bool) {
	return s.lose(f, s.begun() && f.change())
}

// loseLeaving leaves out the event that an object no longer matches a selector, or is gone.
func loseLeaving(s *stream, f frame) ([]frame, bool) {
	return s.lose(f, s.begun() && s.selects() && f.change() && f.Type == history.Deleted)
}

// loseInitial leaves out an object of the state. That is a lie once the end of the state is marked.
func loseInitial(s *stream, f frame) ([]frame, bool) {
	switch {
	case s.held == nil:
		return s.lose(f, s.call.query.Has("sendInitialEvents") && f.Type == history.Added && len(s.last) == 0 && f.change())
	case f.object.Metadata.Annotations["k8s.io/initial-events-end"] == "true":
		s.held = nil
		return []frame{f}, true
	case f.object.Metadata.Name == s.held.object.Metadata.Name: // it comes after all, in another state
		s.held = nil
		s.settle(false)
	}
	return []frame{f}, false
}

func repeatEvent(s *stream, f frame) ([]frame, bool) {
	if s.begun() && f.change() && s.mayLie() {
		return []frame{f, f}, true
	}
	return []frame{f}, false
}

// swapEvents exchanges two consecutive events.
func swapEvents(s *stream, f frame) ([]frame, bool) {
	switch held := s.held; {
	case held != nil && f.change():
		s.held = nil
		return []frame{f, *held}, true
	case held != nil:
		s.held = nil
		s.settle(false)
		return []frame{*held, f}, false
	}
	return s.lose(f, s.begun() && f.change())
}

// changeEvent shows an object in an earlier state.
func changeEvent(s *stream, f frame) ([]frame, bool) {
	before, seen := s.last[f.object.Metadata.Name]
	if s.begun() && f.change() && f.Type == history.Modified && seen && before.object.Data["v"] != f.object.Data["v"] && s.mayLie() {
		return []frame{typed(f.Type, withRevision(before.Object, f.object.revision()))}, true
	}
	return []frame{f}, false
}

// mistakeEvent sends MODIFIED for an object that begins to match a selector.
func mistakeEvent(s *stream, f frame) ([]frame, bool) {
	if s.begun() && s.selects() && f.change() && f.Type == history.Added && s.mayLie() {
		return []frame{typed(history.Modified, f.Object)}, true
	}
	return []frame{f}, false
}

// hurryBookmark sends a bookmark of a revision before its event.
func hurryBookmark(s *stream, f frame) ([]frame, bool) {
	if s.begun() && f.change() && s.call.query.Has("allowWatchBookmarks") && s.mayLie() {
		return []frame{typed(history.Bookmark, fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"%d"}}`, f.object.revision())), f}, true
	}
	return []frame{f}, false
}

// hideEvent leaves out the event that hideWrite has chosen.
func hideEvent(s *stream, f frame) ([]frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.change() && s.hidden != "" && f.object.Data["v"] == s.hidden {
		return nil, false
	}
	return []frame{f}, false
}
