package h2

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// testSequel sends the strings it is given, and ends at an empty one.
type testSequel struct {
	*Continued
	send   chan string // buffered
	waited chan struct{}
	ended  chan any
	broken bool // End panics
}

func (s *testSequel) Step() bool {
	for s.Err() == nil {
		select {
		case text := <-s.send:
			if text == "" {
				return true
			}
			if text == "panic" {
				panic(text)
			}
			if _, err := io.WriteString(s.Writer(), text); err != nil {
				return true
			}
			s.Writer().(http.Flusher).Flush()
		default:
			return false
		}
	}
	return true
}

func (s *testSequel) Waits() { s.waited <- struct{}{} }
func (s *testSequel) End(cause any) {
	s.ended <- cause
	if s.broken {
		panic("at the end")
	}
}

func (s *testSequel) say(text string) {
	s.send <- text
	s.Wake()
}

// sequels answers requests in steps. It sends each to made when the handler is about to return.
func sequels(t *testing.T, stall time.Duration) (h http.HandlerFunc, made chan *testSequel) {
	made = make(chan *testSequel, 10)
	return func(w http.ResponseWriter, r *http.Request) {
		s := &testSequel{send: make(chan string, 10), waited: make(chan struct{}, 100), ended: make(chan any, 10)}
		if s.Continued = Continue(struct{ http.ResponseWriter }{w}, s, stall); s.Continued != nil {
			t.Error("a writer was unwrapped that cannot be")
		}
		s.Continued = Continue(wrapped{w}, s, stall)
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		s.Go()
		made <- s
		if r.URL.Path == "/panic" {
			panic("too late")
		}
	}, made
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (c *rawClient) data(id uint32, want string) {
	c.t.Helper()
	got := ""
	f := c.until(func(f http2.Frame) bool {
		d, ok := f.(*http2.DataFrame)
		if ok && d.StreamID == id {
			got += string(d.Data())
		}
		return ok && d.StreamID == id && (len(got) >= len(want) && want != "" || d.StreamEnded())
	})
	if f == nil || got != want {
		c.t.Fatalf("stream %d has sent %q, want %q", id, got, want)
	}
}

// resting waits until the only activity of a connection is reading.
func (c *rawClient) resting() {
	c.t.Helper()
	own := c.connection()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		stacks := make([]byte, 1<<20)
		running := string(stacks[:runtime.Stack(stacks, true)])
		own.mu.Lock()
		rests := !own.stepping && !own.writing
		own.mu.Unlock()
		if rests && !strings.Contains(running, "h2.(*steps).run") && !strings.Contains(running, "h2.(*stream).run") {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal("goroutines run for answers that wait")
		}
	}
}

// A response outlives its handler, whenever and by whatever it is woken, and uses no goroutine meanwhile. It ends by itself, with its stream or
// with its connection, exactly once.
func TestSequel(t *testing.T) {
	h, made := sequels(t, time.Minute)
	c := newRawClient(t, 10, h)
	var all []*testSequel
	for id := uint32(1); id <= 7; id += 2 {
		c.open(id, "/", true)
		all = append(all, <-made)
		all[len(all)-1].say("first") // the handler may still be running
		c.data(id, "first")
	}
	c.resting()
	for i, s := range all {
		s.say("again")
		c.data(uint32(2*i+1), "again")
	}
	for range 3 {
		all[0].send <- "x"
	}
	all[0].WakeIn(time.Millisecond)
	all[1].WakeIn(time.Hour) // together with the other one
	all[1].send <- "y"
	c.data(1, "xxx")
	all[0].say("")
	c.data(1, "")
	if cause := <-all[0].ended; cause != nil {
		t.Error(cause)
	}
	c.must(c.WriteRSTStream(5, http2.ErrCodeCancel))
	<-all[2].ended
	c.nc.Close()
	<-all[1].ended
	<-all[3].ended
	c.own.ended()
	for _, s := range all {
		s.Wake() // has no effect
		if len(s.ended) > 0 {
			t.Error("an answer has ended twice")
		}
	}
}

// Trailers may follow when the handler of a response has returned, and its request is gone.
func TestTrailersForSequel(t *testing.T) {
	h, made := sequels(t, time.Minute)
	c := newRawClient(t, 10, h)
	c.open(1, "/", false)
	s := <-made
	s.say("first")
	c.data(1, "first")
	c.resting()
	c.block.Reset()
	c.must(c.encoder.WriteField(hpack.HeaderField{Name: "x-sum", Value: "1"}))
	c.must(c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.block.Bytes(), EndHeaders: true, EndStream: true}))
	s.say("last")
	c.data(1, "last")
	c.heard()
	s.say("last of all")
	c.data(1, "last of all")
}

// A panic of a step, of a handler that was about to return, or of End, ends its stream and no other.
func TestSequelPanics(t *testing.T) {
	h, made := sequels(t, time.Minute)
	c := newRawClient(t, 10, h)
	c.open(1, "/", true)
	stays := <-made
	c.open(3, "/", true)
	panics := <-made
	panics.say("panic")
	c.resetWith(3, http2.ErrCodeInternal)
	if cause := <-panics.ended; cause != "panic" {
		t.Errorf("the end is for %v", cause)
	}
	c.open(5, "/panic", true)
	late := <-made
	c.resetWith(5, http2.ErrCodeInternal)
	if cause := <-late.ended; cause != "too late" {
		t.Errorf("the end is for %v", cause)
	}
	for i, last := range []string{"panic", ""} {
		id := uint32(7 + 2*i)
		c.open(id, "/", true)
		broken := <-made
		broken.broken = true
		broken.say(last)
		c.resetWith(id, http2.ErrCodeInternal)
		<-broken.ended
	}
	stays.say("here")
	c.data(1, "here")
	stays.say("")
	c.data(1, "")
	c.resting()
	if n := c.connection().handlers; n != 0 {
		t.Errorf("%d handlers are counted", n)
	}
}

// A response without a window, or with a step that takes long, delays no other. It continues in order when it can.
func TestSequelsDoNotWaitForEachOther(t *testing.T) {
	h, made := sequels(t, time.Minute)
	c := newRawClient(t, 10, h, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
	c.open(1, "/", true)
	narrow := <-made
	c.open(3, "/", true)
	other := <-made
	narrow.say("0123456789")
	c.data(1, "0123456789")
	narrow.say("abc")
	narrow.say("def")
	<-narrow.waited
	other.say("free")
	c.data(3, "free")
	c.must(c.WriteWindowUpdate(1, 100))
	c.data(1, "abcdef")
	narrow.say("0123456789")
	c.data(1, "0123456789")
	c.resting()
}

// asideSequel has steps that take long, and calls Aside.
type asideSequel struct {
	testSequel
	aside, free chan struct{}
}

func (s *asideSequel) Step() bool {
	s.aside <- struct{}{}
	s.Aside()
	<-s.free
	return s.testSequel.Step()
}

func TestSequelAside(t *testing.T) {
	h, made := sequels(t, time.Minute)
	slow := &asideSequel{testSequel: testSequel{send: make(chan string, 1), ended: make(chan any, 1)}, aside: make(chan struct{}), free: make(chan struct{})}
	c := newRawClient(t, 10, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			h(w, r)
			return
		}
		slow.Continued = Continue(w, slow, time.Minute)
		w.(http.Flusher).Flush()
		slow.Go()
	})
	c.open(1, "/slow", true)
	c.open(3, "/", true)
	other := <-made
	<-slow.aside
	other.say("free")
	c.data(3, "free")
	slow.send <- ""
	close(slow.free)
	<-slow.ended
	c.data(1, "")
}

// unread is a continued response to a client that has a large window and reads nothing.
func unread(t *testing.T) *testSequel {
	t.Helper()
	h, made := sequels(t, 100*time.Millisecond)
	c := newRawClient(t, 10, h, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	c.must(c.WriteWindowUpdate(0, 1<<30))
	c.open(1, "/", true)
	return <-made
}

// A client that reads nothing loses its connection, and every response ends.
func TestSequelOfClientThatReadsNothing(t *testing.T) {
	s := unread(t)
	for range 10 {
		s.send <- strings.Repeat("x", 8<<20)
	}
	s.Wake()
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		t.Error("it goes on for ever")
	}
}

// The same holds if the client is sent little at a time, as with the events of most watches.
func TestSequelOfClientThatReadsNothingOfLittle(t *testing.T) {
	s := unread(t)
	s.waited = make(chan struct{}, 1<<20)
	timeout := time.After(20 * time.Second)
	for little := strings.Repeat("x", copyMost/2); ; {
		select {
		case s.send <- little:
			s.Wake()
		case <-s.ended:
			return
		case <-timeout:
			t.Fatal("it goes on for ever")
		}
	}
}

// A shutdown waits for a continued response, and ends the connection with it.
func TestSequelAtShutdown(t *testing.T) {
	h, made := sequels(t, time.Minute)
	s := ownServer(t, h)
	client := clients(t)["x/net"]
	answer, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	goesOn := <-made
	done := make(chan error, 1)
	go func() { done <- s.Config.Shutdown(t.Context()) }()
	goesOn.say("last")
	last := make([]byte, 4)
	if _, err := io.ReadFull(answer.Body, last); err != nil || string(last) != "last" {
		t.Fatalf("%q, %v", last, err)
	}
	select {
	case err := <-done:
		t.Fatalf("it was not waited for: %v", err)
	default:
	}
	goesOn.say("")
	if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := client.Get(s.URL); err == nil {
		t.Error("it goes on to serve")
	}
}
