package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// The rows of this file, as reports call them.
const (
	rowListJSON     = "list pods, JSON"
	rowListProtobuf = "list pods, protobuf"
	rowListTable    = "list pods, Table"
	rowListSelector = "list pods, label selector 1 in 10"
	rowListPages    = "list pods, in pages of 500"
)

// Media types of the forms in which lists are asked for.
const (
	protobufType = "application/vnd.kubernetes.protobuf"
	tableType    = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

const pageSize = 500

// lists measures the forms of list over the pods that exist during the run, one client at a time: a second list at
// once would only share the cores with the first.
func (b *bench) lists(ctx context.Context) error {
	for _, row := range []struct {
		name string
		op   operation
	}{
		{rowListJSON, list(request{path: podsPath})},
		{rowListProtobuf, list(request{path: podsPath, accept: protobufType})},
		{rowListTable, list(request{path: podsPath, accept: tableType})},
		{rowListSelector, list(request{path: podsPath + "?labelSelector=" + url.QueryEscape(groupLabel+"=3")})},
		{rowListPages, b.listPages},
	} {
		if _, err := b.measureRow(ctx, load{row: row.name, clients: b.clients[:1], duration: b.Duration}, row.op); err != nil {
			return err
		}
	}
	return nil
}

// list is one list in one answer.
func list(r request) operation {
	r.method = http.MethodGet
	return func(ctx context.Context, c *client, _, _, _ int) (int64, error) { return c.do(ctx, r) }
}

// listPages is one list in as many answers as it takes.
func (b *bench) listPages(ctx context.Context, c *client, _, _, _ int) (int64, error) {
	var total int64
	token := ""
	for {
		path := fmt.Sprintf("%s?limit=%d&continue=%s", podsPath, pageSize, url.QueryEscape(token))
		n, err := c.do(ctx, request{method: http.MethodGet, path: path, keep: true})
		total += n
		if err != nil {
			return total, err
		}
		if token = continueOf(c.body.Bytes()); token == "" {
			return total, nil
		}
	}
}

// continueOf returns the continue token of an encoded list, or nothing on the last page. Decoding the page would cost the
// client more than making it costs the server.
func continueOf(list []byte) string {
	_, rest, _ := bytes.Cut(list, []byte(`"continue":"`))
	token, _, _ := bytes.Cut(rest, []byte{'"'})
	return string(token)
}
