package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/klauspost/compress/gzip"
)

// rowInformers is the simultaneous start of informers, as after a restart of the server. Each requests the state and later events by one watch
// (WatchList, client-go's way), and has started when the bookmark marks the end of the state.
const rowInformers = "start of 50 informers, WatchList"

// informers is how many start at once.
const informers = 50

const watchListPath = podsPath + "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true" +
	"&resourceVersionMatch=NotOlderThan&timeoutSeconds=300"

var (
	bookmarkHead    = []byte(`{"type":"BOOKMARK"`)
	errorHead       = []byte(`{"type":"ERROR"`)
	errStreamFailed = errors.New("the watch ended with an error")
)

// watchList is the start of one informer.
func watchList(encoding string) operation {
	return func(ctx context.Context, c *client, _, _, _ int) (int64, error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel() // ends the watch
		response, err := c.open(ctx, request{method: http.MethodGet, path: watchListPath, encoding: encoding})
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		sent := &counter{r: response.Body}
		var stream io.Reader = sent
		if response.Header.Get("Content-Encoding") == "gzip" {
			if stream, err = gzip.NewReader(sent); err != nil {
				return sent.n, err
			}
		}
		lines := bufio.NewReaderSize(stream, 64<<10)
		for {
			line, err := lines.ReadSlice('\n')
			switch {
			case err != nil:
				return sent.n, err
			case bytes.HasPrefix(line, bookmarkHead):
				return sent.n, nil
			case bytes.HasPrefix(line, errorHead):
				return sent.n, errStreamFailed
			}
		}
	}
}

// counter counts the bytes that are read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
