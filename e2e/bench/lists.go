package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/klauspost/compress/gzip"
)

// The rows of this file, as reports call them.
const (
	rowListJSON     = "list pods, JSON"
	rowListProtobuf = "list pods, protobuf"
	rowListTable    = "list pods, Table"
	rowListSelector = "list pods, label selector 1 in 10"
	rowListPages    = "list pods, in pages of 500"
)

// Media types of the requested forms of lists.
const (
	protobufType = "application/vnd.kubernetes.protobuf"
	tableType    = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

const pageSize = 500

// gzipSuffix follows a row's name where the client asks for gzip, as client-go does by default.
const gzipSuffix = ", gzip"

// lists measures the forms of list over the pods that exist during the run, one client at a time: a second list at once would only share the cores
// with the first. Only the start of informers has many clients.
func (b *bench) lists(ctx context.Context) error {
	for _, row := range []struct {
		name    string
		clients int
		op      func(encoding string) operation
	}{
		{rowListJSON, 1, list(request{path: podsPath})},
		{rowListProtobuf, 1, list(request{path: podsPath, accept: protobufType})},
		{rowListTable, 1, list(request{path: podsPath, accept: tableType})},
		{rowListSelector, 1, list(request{path: podsPath + "?labelSelector=" + url.QueryEscape(groupLabel+"=3")})},
		{rowListPages, 1, b.listPages},
		{rowInformers, informers, watchList},
	} {
		for _, encoding := range []string{"", "gzip"} {
			l := load{row: row.name}
			if encoding != "" {
				l.row += gzipSuffix
			}
			for _, p := range b.Protocols {
				if _, err := b.measureRow(ctx, p, row.clients, l, row.op(encoding)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// list is one list in one answer.
func list(r request) func(encoding string) operation {
	r.method = http.MethodGet
	return func(encoding string) operation {
		r.encoding = encoding
		return func(ctx context.Context, c *client, _, _, _ int) (int64, error) { return c.do(ctx, r) }
	}
}

// listPages is one list in as many answers as it takes.
func (b *bench) listPages(encoding string) operation {
	return func(ctx context.Context, c *client, _, _, _ int) (int64, error) {
		var total int64
		token := ""
		for {
			path := fmt.Sprintf("%s?limit=%d&continue=%s", podsPath, pageSize, url.QueryEscape(token))
			n, err := c.do(ctx, request{method: http.MethodGet, path: path, keep: true, encoding: encoding})
			total += n
			if err != nil {
				return total, err
			}
			page, err := plain(c.body.Bytes(), encoding)
			if err != nil {
				return total, err
			}
			if token = continueOf(page); token == "" {
				return total, nil
			}
		}
	}
}

// plain returns the uncompressed beginning of an answer, which contains a list's metadata.
func plain(answer []byte, encoding string) ([]byte, error) {
	const beginning = 4 << 10
	if encoding == "" || !bytes.HasPrefix(answer, gzipMagic) { // a small answer is not compressed
		return answer, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(answer))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, beginning))
}

// gzipMagic is the beginning of compressed data.
var gzipMagic = []byte{0x1f, 0x8b}

// continueOf returns the continue token of an encoded list, or nothing on the last page. Decoding the page would cost the client more than producing
// it costs the server.
func continueOf(list []byte) string {
	_, rest, _ := bytes.Cut(list, []byte(`"continue":"`))
	token, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(token)
}
