package custom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rowlock/rowlock/resources"
)

// The bounds of requests to a webhook: objects and bytes of one request, concurrent requests for one list, and for all.
const (
	mostObjects   = 64
	mostBytes     = 512 << 10
	requestsOfOne = 4
	requestsOfAll = 16
)

// conversions are the conversions of stored objects by the webhook of a definition. A result is kept with the object (resources.ConvertedForm): the
// webhook converts an object at a revision once, also when many requests need it at the same time. No lock is held while the webhook is called.
type conversions struct {
	d *definition
	// room limits the concurrent requests, those for writes included.
	room chan struct{}
	// single: the webhook cannot convert several objects in one request; kube-apiserver never sends more than one.
	single *atomic.Bool
	// most is the number of objects in a request: a request for several of them that gets no answer halves it, a quick answer to one for so many doubles it.
	most *atomic.Int64

	mu      sync.Mutex
	flights map[flightKey]*flight
}

// flightKey is an object and the form to convert it to.
type flightKey struct {
	object *resources.Object
	form   string
}

// flight is a conversion in progress.
type flight struct {
	flightKey
	done chan struct{}
	data []byte // when done
	err  error
}

// errAbandoned: the request that began the flight ended before the webhook answered.
var errAbandoned = errors.New("the conversion was abandoned")

// errTooMany: a request for several objects got no answer, which is the error of the flights.
var errTooMany = errors.New("a webhook did not answer a request for several objects")

func newConversions(d *definition) *conversions {
	c := &conversions{d: d, room: make(chan struct{}, requestsOfAll), flights: map[flightKey]*flight{}, single: &atomic.Bool{}, most: &atomic.Int64{}}
	c.most.Store(mostObjects)
	return c
}

// follows makes the conversions share with those of an earlier definition what is known of the webhook, if it is the same one. After a change of the
// spec it may be a corrected one, which gets several objects again; if it is not, one request for them tells.
func (c *conversions) follows(before *conversions) {
	if c == nil || before == nil || c.d.who != before.d.who {
		return
	}
	c.most = before.most
	if c.d.generation == before.d.generation {
		c.single = before.single
	}
}

// enter waits until there is room for another request; leave ends the request.
func (c *conversions) enter(ctx context.Context) error {
	select {
	case c.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *conversions) leave() { <-c.room }

// of returns objects in the version of a type, as JSON: the contract is that of resources.Type.Converted.
func (c *conversions) of(ctx context.Context, t *resources.Type, objects []*resources.Object) ([][]byte, error) {
	made := make([][]byte, len(objects))
	for ctx.Err() == nil {
		flights, mine := c.book(t.ConvertedIn(), objects, made)
		if len(flights) == 0 {
			return made, nil
		}
		if err := c.fly(ctx, t, mine); err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var failed *resources.TransformError
		for i, o := range objects {
			f := flights[i]
			if f == nil {
				continue
			}
			select {
			case <-f.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			switch {
			case f.err == nil:
				made[i] = f.data
			case !errors.Is(f.err, errAbandoned):
				failed = failed.And(&resources.TransformError{Key: o.Key, Revision: o.Revision, Err: f.err, Undecodable: true})
			}
		}
		if failed != nil {
			return nil, failed
		}
	}
	return nil, ctx.Err()
}

// book fills in the known results, and returns the flights of the others by the index of the object. The caller has to make the flights in mine;
// other requests have begun the rest.
func (c *conversions) book(form string, objects []*resources.Object, made [][]byte) (flights map[int]*flight, mine []*flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range objects {
		if made[i] != nil {
			continue
		}
		if made[i] = o.Kept(form); made[i] != nil {
			continue
		}
		key := flightKey{o, form}
		f := c.flights[key]
		if f == nil {
			f = &flight{flightKey: key, done: make(chan struct{}), err: errAbandoned}
			c.flights[key] = f
			mine = append(mine, f)
		}
		if flights == nil {
			flights = map[int]*flight{}
		}
		flights[i] = f
	}
	return flights, mine
}

// fly makes flights, all of which are done when it returns. If a request for several objects gets no answer, they are sent again with fewer others:
// kube-apiserver gives each object a request, and a timeout, of its own. No request begins when two timeouts have passed, nor after one without an
// answer when the caller has no more time left than that one took. The results, and the number of objects in a request, are kept, so the next call
// gets further.
func (c *conversions) fly(ctx context.Context, t *resources.Type, all []*flight) error {
	defer c.land(all)
	going, cancel := context.WithTimeout(ctx, 2*c.d.lines.patience())
	defer cancel()
	var silent atomic.Int64
	again, err := c.round(ctx, going, t, all, &silent)
	for len(again) > 0 && err == nil && going.Err() == nil && !late(ctx, &silent) {
		again, err = c.round(ctx, going, t, again, &silent)
	}
	for _, f := range all {
		if err != nil && unreachable(err) && !unanswered(err) && errors.Is(f.err, errAbandoned) {
			f.err = err // another call would give the same error
		}
	}
	return err
}

// late reports whether another request without an answer could outlast the caller, who would then not get the webhook's error. silent is the longest
// time, in nanoseconds, that one took; 0: each got an answer. A webhook that closes the connection at once takes hardly any.
func late(ctx context.Context, silent *atomic.Int64) bool {
	end, limited := ctx.Deadline()
	took := time.Duration(silent.Load())
	return limited && took > 0 && time.Until(end) <= took
}

// round sends each of some flights in one request. It returns those whose requests were for several objects and got no answer. No request begins when
// going has ended, or after another error, which round returns. It raises silent (late) for a request without an answer.
func (c *conversions) round(ctx, going context.Context, t *resources.Type, all []*flight, silent *atomic.Int64) (again []*flight, err error) {
	work, live := errgroup.WithContext(going)
	work.SetLimit(requestsOfOne)
	for rest := all; len(rest) > 0 && live.Err() == nil; {
		n := c.batch(rest)
		flights := rest[:n]
		rest = rest[n:]
		work.Go(func() error {
			if err := c.enter(live); err != nil {
				return err
			}
			defer c.leave()
			if live.Err() != nil {
				return live.Err() // while it waited
			}
			if late(ctx, silent) {
				return nil
			}
			n, began, sent := int64(len(flights)), c.d.lines.now(), time.Now()
			err := c.request(ctx, going, t, flights) // not cancelled if another request fails: its results are kept
			switch {
			case errors.Is(err, errTooMany):
				for took, longest := int64(time.Since(sent)), silent.Load(); took > longest && !silent.CompareAndSwap(longest, took); {
					longest = silent.Load()
				}
				c.most.Store(min(c.most.Load(), n/2))
				return nil
			case err == nil && silent.Load() == 0 && c.d.lines.now().Sub(began) < c.d.lines.patience()/4:
				c.most.CompareAndSwap(n, min(2*n, mostObjects))
			}
			return err
		})
	}
	if err = work.Wait(); err != nil {
		return nil, err
	}
	for _, f := range all {
		if unanswered(f.err) {
			again = append(again, f)
		}
	}
	return again, nil
}

// land ends flights.
func (c *conversions) land(all []*flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range all {
		delete(c.flights, f.flightKey)
		close(f.done)
	}
}

// batch is the number of flights in one request.
func (c *conversions) batch(all []*flight) int {
	if c.single.Load() {
		return 1
	}
	n, size := 0, 0
	for most := int(c.most.Load()); n < len(all) && n < most; {
		if size += len(all[n].object.Data); n > 0 && size > mostBytes {
			break
		}
		n++
	}
	return n
}

// request makes the webhook convert the objects of some flights, one by one if it refuses them together, until going has ended. It returns the first
// error, or errTooMany.
func (c *conversions) request(ctx, going context.Context, t *resources.Type, flights []*flight) error {
	for _, f := range flights {
		f.err = errAbandoned // no longer that of a request without an answer
	}
	converted, err := c.ask(ctx, t, flights)
	if err != nil && ctx.Err() != nil {
		return err // the other requests that wait for the flights call the webhook again
	}
	if err != nil && len(flights) > 1 && !unreachable(err) {
		return c.oneByOne(ctx, going, t, flights)
	}
	for i, f := range flights {
		if err == nil {
			f.data, err = c.keep(t, f, converted[i].Object)
		}
		f.err = err
	}
	if len(flights) > 1 && unanswered(err) {
		return errTooMany
	}
	return err
}

// oneByOne makes a request for each flight, until going has ended. These show which object an error is for, with kube-apiserver's text. It returns the
// first error.
func (c *conversions) oneByOne(ctx, going context.Context, t *resources.Type, flights []*flight) (failed error) {
	for i := range flights {
		if going.Err() != nil {
			return going.Err()
		}
		err := c.request(ctx, going, t, flights[i:i+1])
		if failed == nil {
			failed = err
		}
		if err != nil && (unreachable(err) || ctx.Err() != nil) {
			return err // the next request would get no answer either
		}
	}
	if failed == nil {
		c.single.Store(true)
	}
	return failed
}

// unreachable reports whether a webhook was not called, or did not answer: by the text of net/url, which upstream's error contains.
func unreachable(err error) bool { return strings.Contains(err.Error(), ` failed: Post "`) }

// unanswered reports whether a webhook was reached, and did not answer the request: in time, or before it closed the connection.
func unanswered(err error) bool { return errors.As(err, new(noAnswer)) }

func (c *conversions) ask(ctx context.Context, t *resources.Type, flights []*flight) ([]unstructured.Unstructured, error) {
	objects := make([]unstructured.Unstructured, len(flights))
	for i, f := range flights {
		obj, err := t.DecodeStored(f.object)
		if err != nil {
			return nil, err
		}
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("%s is stored as a %T", f.object.Key, obj)
		}
		objects[i] = *u
	}
	return c.d.ask(ctx, objects, t.Hub.Version)
}

// keep encodes the webhook's result for an object, and keeps it with the object. The kind is the object's own, as upstream's converter has checked:
// the definition's or, in history, that of an earlier definition.
func (c *conversions) keep(t *resources.Type, f *flight, object map[string]any) ([]byte, error) {
	earlier := t.ConvertedEarlier(f.object)
	data, err := f.object.Form(f.form, func() ([]byte, error) {
		object["apiVersion"] = t.Hub.String()
		u := &unstructured.Unstructured{Object: object}
		if err := c.d.settle(u); err != nil {
			return nil, err
		}
		return json.Marshal(u.Object)
	})
	if err == nil && earlier != nil && !bytes.Equal(data, earlier) && c.d.differs != nil {
		c.d.differs(t)
	}
	return data, err
}
