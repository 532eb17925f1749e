package handlers_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// FuzzQueries sends options of lists and of watches, resumed at any revision. It cancels requests that wait.
func FuzzQueries(f *testing.F) {
	a := fuzzAPI(f)
	for _, seed := range []string{"resourceVersion=1", "resourceVersion=-1&resourceVersionMatch=Exact", "watch=1&resourceVersion=3&allowWatchBookmarks=x", "limit=-1&timeoutSeconds=1e9",
		"watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0", "dryRun=All&dryRun=None", "%zz=1;&&=", "continue=x&resourceVersion=2", "pretty&includeObject=x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		for _, watch := range []string{"", "&watch=true"} {
			r, err := http.NewRequest(http.MethodGet, configMaps+"?"+query+watch, http.NoBody)
			if err != nil {
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r.WithContext(ctx))
			cancel()
			if strings.Contains(w.Body.String(), "apiserver panic'd") {
				t.Fatalf("panic on %q", query)
			}
		}
	})
}

// FuzzCBOR sends possible CBOR as bodies, options and apply configurations.
func FuzzCBOR(f *testing.F) {
	a := newAPIWith(f, map[string]bool{"CBORServingAndStorage": true})
	for _, seed := range []string{"\xd9\xd9\xf7\xa1\x48metadata\xa1\x44name\x41b", "\xa0", "\xf6", "\x9b\x00\xff\xff\xff\xff\xff\xff\xff", "\xbf\xff", "\xd9\xd9\xf7\x81\x81\x81", "\xc2\x41\x01", "\xfb\x7f\xf0\x00\x00\x00\x00\x00\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a.answer(t, "POST", configMaps+"?dryRun=All", sendsCBOR, string(body))
		a.answer(t, "DELETE", configMaps+"/a?dryRun=All", sendsCBOR, string(body))
		a.answer(t, "PATCH", configMaps+"/a?dryRun=All&fieldManager=m", cborApply, string(body))
	})
}

// FuzzWebSockets sends possible frames to a watch, which must end with its client.
func FuzzWebSockets(f *testing.F) {
	a := fuzzAPI(f)
	s := a.listen()
	for _, seed := range []string{"\x81\x85\x00\x00\x00\x00hello", "\x88\x80\x00\x00\x00\x00", "\x89\x80\x00\x00\x00\x00", "\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", "\x01\x80\x00\x00\x00\x00", "\x8a\xfe\xff\xff", "\xff\xff", "\x81\x05hello"} {
		f.Add([]byte(seed))
	}
	const upgrade = "GET " + configMapWatch + "&timeoutSeconds=60 HTTP/1.1\r\nHost: x\r\nOrigin: https://x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
	f.Fuzz(func(t *testing.T, frames []byte) {
		c, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) // not under test
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, upgrade); err != nil {
			t.Fatal(err)
		}
		answer := bufio.NewReader(c)
		if line, err := answer.ReadString('\n'); err != nil || !strings.Contains(line, "101") {
			t.Fatalf("%q, %v", line, err)
		}
		// The server may have closed the connection before everything is written.
		if _, err := c.Write(frames); err == nil {
			_ = c.CloseWrite()
		}
		if _, err := io.Copy(io.Discard, answer); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("the watch goes on after %q", frames)
		}
	})
}
