package record

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// oldWatches and oldLists are the numbers of watches and lists that continue across the loss of writes.
const (
	oldWatches = 12
	oldLists   = 6
)

// value is unique to a write, also in the earlier history.
func (r *recorder) value(a, b int) string {
	if r.history.Loss != nil {
		return fmt.Sprintf("after-%d-%d", a, b)
	}
	return fmt.Sprintf("%d-%d", a, b)
}

// lose lets writes be lost while clients write, and begins the history with the remaining state. Before, it opens watches and begins lists, which
// continue afterwards.
func (r *recorder) lose(ctx, watching context.Context, o *Options, watchers *sync.WaitGroup, errs *errorList) error {
	r.history.Loss = o.Loss
	r.latest = o.Loss.Told
	random := rand.New(rand.NewPCG(o.Seed, 1<<40))
	span := o.Loss.Told - o.Loss.Start + 1
	tokens := make([]string, oldLists)
	lists := make([]history.Operation, oldLists)
	for i := range lists {
		op := history.Operation{Client: i, Server: i % len(r.targets), Kind: history.List, Limit: 1, Call: r.now()}
		page, token, err := r.page(ctx, &op, "")
		if err != nil {
			return err
		}
		op.Pages, op.Code = []history.Page{page}, page.Code
		tokens[i], lists[i] = token, op
	}
	for i := range oldWatches {
		w := history.Watch{Client: -2 - o.Watchers - i, Server: i % len(r.targets), Match: history.Exact, At: o.Loss.Told, Bookmarks: true}
		if i%2 == 1 {
			w.At -= random.Int64N(span)
		}
		if i%4 < 2 { // open during the loss, if it was not lost before
			watchers.Go(func() { errs.add(r.watch(watching, w, 0)) })
		} else {
			defer func() { watchers.Go(func() { errs.add(r.watch(watching, w, 0)) }) }()
		}
	}
	if err := r.duringLoss(ctx, o, o.Lose); err != nil {
		return err
	}
	// A server that was not asked for the most recent state need not know of the loss; one that was asked has to.
	half := oldLists / 2
	if err := r.ofBefore(ctx, o, random, lists[:half], tokens[:half]); err != nil {
		return err
	}
	if err := r.left(ctx, o.Loss); err != nil {
		return err
	}
	return r.ofBefore(ctx, o, random, lists[half:], tokens[half:])
}

// left begins the history with the remaining state, and asks all servers for it.
func (r *recorder) left(ctx context.Context, l *history.Loss) error {
	list, err := r.begin(ctx)
	if err != nil {
		return err
	}
	for i := range list.Items {
		object, err := list.Items[i].object()
		if err != nil {
			return err
		}
		l.State = append(l.State, object)
		r.learn(object)
	}
	for server := range r.targets {
		_, err := r.until(ctx, readyWithin, func() (bool, error) {
			o := history.Operation{Client: -1, Server: server, Kind: history.List, Call: r.now()}
			page, _, err := r.page(ctx, &o, "")
			o.Pages, o.Return, o.Code = []history.Page{page}, page.Return, page.Code
			r.addOperation(o)
			return page.Code == http.StatusOK, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofBefore requests the further pages of earlier lists, and the state at earlier revisions.
func (r *recorder) ofBefore(ctx context.Context, o *Options, random *rand.Rand, lists []history.Operation, tokens []string) error {
	if err := r.goOn(ctx, lists, tokens); err != nil {
		return err
	}
	for i := range lists {
		op := history.Operation{Client: i, Server: i % len(r.targets), Kind: history.List, Match: history.Exact, At: o.Loss.Told}
		if i > 0 {
			op.At -= random.Int64N(o.Loss.Told - o.Loss.Start + 1)
		}
		if err := r.list(ctx, op, 0); err != nil {
			return err
		}
	}
	return nil
}

// goOn requests the second pages of lists, until they are answered.
func (r *recorder) goOn(ctx context.Context, lists []history.Operation, tokens []string) error {
	for i := range lists {
		op := &lists[i]
		if tokens[i] == "" {
			continue
		}
		_, err := r.until(ctx, readyWithin, func() (bool, error) {
			page, _, err := r.page(ctx, op, tokens[i])
			if page.Code == 0 || page.Code >= http.StatusInternalServerError {
				return false, err
			}
			op.Pages = append(op.Pages, page)
			op.Return, op.Code = page.Return, page.Code
			return true, err
		})
		if err != nil {
			return err
		}
		r.addOperation(*op)
	}
	return nil
}
