package server

import (
	"net/http"
	"sync"
	"unicode/utf8"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// These limits on Warning headers, in runes, are for proxies: when the sum of all warnings exceeds the first, each warning is cut to the second.
const (
	warningsTotal = 4 * 1024
	warningCut    = 256
)

// warnings writes Warning headers (RFC 7234, 5.5), each text once.
type warnings struct {
	mu      sync.Mutex
	header  http.Header
	said    []warningText
	written int
	cutting bool
}

type warningText struct{ agent, text string }

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(agent, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text == "" || w.cutting && w.written >= warningsTotal {
		return
	}
	for _, s := range w.said {
		if s.text == text {
			return
		}
	}
	w.said = append(w.said, warningText{agent, text})
	if !w.cutting && w.written+utf8.RuneCountInString(text) <= warningsTotal || w.cutting {
		w.write(agent, text)
		return
	}
	w.cutting, w.written = true, 0
	w.header.Del("Warning")
	for _, s := range w.said {
		w.write(s.agent, s.text)
	}
}

// Forget drops the warnings so far, when an attempt is discarded.
func (w *warnings) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said, w.written, w.cutting = nil, 0, false
	w.header.Del("Warning")
}

func (w *warnings) write(agent, text string) {
	if n := utf8.RuneCountInString(text); w.cutting && n > warningCut {
		text = string([]rune(text)[:warningCut])
	}
	header, err := utilnet.NewWarningHeader(299, agent, text)
	if err != nil {
		return // the text is invalid in a header
	}
	w.written += utf8.RuneCountInString(text)
	w.header.Add("Warning", header)
}
