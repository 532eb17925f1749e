package record

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// versions adds the requested revision to a query.
func versions(query url.Values, match string, at int64) {
	switch match {
	case history.Any:
		query.Set("resourceVersion", "0")
	case history.NotOlder:
		query.Set("resourceVersion", strconv.FormatInt(at, 10))
		query.Set("resourceVersionMatch", "NotOlderThan")
	case history.Exact:
		query.Set("resourceVersion", strconv.FormatInt(at, 10))
		query.Set("resourceVersionMatch", "Exact")
	}
}

// get gets an object according to the operation, and records it.
func (r *recorder) get(ctx context.Context, o history.Operation) error {
	query := url.Values{}
	versions(query, o.Match, o.At)
	query.Del("resourceVersionMatch") // a get does not have it
	o.Call = r.now()
	answer, code, err := r.ask(ctx, r.targets[o.Server], http.MethodGet, r.path(o.Name, query), "", nil)
	o.Return, o.Code = r.now(), code
	if err != nil || code == 0 {
		return err
	}
	if code == http.StatusOK {
		object, err := answer.object()
		if err != nil {
			return err
		}
		o.Object = &object
		r.learn(object)
	} else {
		o.Reason = answer.Reason
	}
	r.addOperation(o)
	return nil
}

// triesOfPage is how often a page without an answer is requested. The token stays valid, also on another server.
const triesOfPage = 3

// list lists objects, all pages, according to the operation, and records it. It waits for a time before each further page.
func (r *recorder) list(ctx context.Context, o history.Operation, between time.Duration) error {
	token := ""
	o.Call = r.now()
	for tries := 0; tries < triesOfPage; {
		page, next, err := r.page(ctx, &o, token)
		if err != nil {
			return err
		}
		if len(o.Pages) == 0 || page.Code == http.StatusOK || page.Code == http.StatusGone || page.Code == http.StatusBadRequest {
			o.Pages = append(o.Pages, page)
			o.Return, o.Code = page.Return, page.Code
		}
		if page.Code != http.StatusOK {
			if tries++; len(o.Pages) == 1 && o.Pages[0].Code != http.StatusOK || page.Code == http.StatusGone || page.Code == http.StatusBadRequest {
				break
			}
			o.Server = (o.Server + 1) % len(r.targets)
			continue
		}
		if token = next; token == "" {
			break
		}
		r.sleep(ctx, between)
	}
	r.addOperation(o)
	return nil
}

// page requests the first page, or that of a token.
func (r *recorder) page(ctx context.Context, o *history.Operation, token string) (page history.Page, next string, err error) {
	query := url.Values{}
	if token == "" {
		versions(query, o.Match, o.At)
	} else {
		query.Set("continue", token)
	}
	if o.Limit > 0 {
		query.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Select != "" {
		query.Set("labelSelector", r.selector(o.Select))
	}
	page = history.Page{Call: r.now(), Remaining: -1}
	answer, code, err := r.ask(ctx, r.targets[o.Server], http.MethodGet, r.path("", query), "", nil)
	page.Return, page.Code = r.now(), code
	if err != nil || code != http.StatusOK {
		return page, "", err
	}
	if page.Revision, err = answer.revision(); err != nil {
		return page, "", err
	}
	r.learn(history.Object{Revision: page.Revision})
	page.More = answer.Metadata.Continue != ""
	if answer.Metadata.Remaining != nil {
		page.Remaining = *answer.Metadata.Remaining
	}
	for i := range answer.Items {
		item, err := answer.Items[i].object()
		if err != nil {
			return page, "", err
		}
		page.Items = append(page.Items, item)
	}
	return page, answer.Metadata.Continue, nil
}
