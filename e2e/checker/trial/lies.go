package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
	"github.com/rowlock/rowlock/e2e/checker/liar"
	"github.com/rowlock/rowlock/e2e/checker/record"
)

const (
	// lyingRounds limits the rounds in which a server has too few occasions to lie. Each lasts twice as long as the previous one, for slow machines.
	lyingRounds = 7
	// lyingAtOnce is how many proxies lie about one server at once, each in a namespace of its own.
	lyingAtOnce = 4
)

// Lie is the result of one way to lie.
type Lie struct {
	liar.Lie
	// Rounds is the number of rounds until the server had lied.
	Rounds int
	// Found are the violations of that round.
	Found []history.Violation
}

// Caught says whether the verifier found one of the rules broken that the lie breaks.
func (l *Lie) Caught() bool {
	return slices.ContainsFunc(l.Found, func(v history.Violation) bool { return slices.Contains(l.Rules, v.Rule) })
}

// Lies lets clients work on a server that lies, in each of the ways of package liar, and verifies their records. Errors: a lie for which the server
// had no occasion, and violations where it had not lied.
func Lies(ctx context.Context, o Options) (_ []Lie, err error) {
	dir, err := os.MkdirTemp("", "rowlock-lies-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Servers = 1
	s, err := start(ctx, &o, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	targets, err := s.targets()
	if err != nil {
		return nil, err
	}
	var all []Lie
	for _, l := range liar.Lies() {
		all = append(all, Lie{Lie: l})
	}
	errs := make([]error, len(all))
	var working sync.WaitGroup
	turns := make(chan struct{}, lyingAtOnce)
	for i := range all {
		working.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			errs[i] = all[i].try(ctx, &o, targets[0], i)
		})
	}
	working.Wait()
	return all, errors.Join(errs...)
}

// try runs rounds until the server has lied.
func (l *Lie) try(ctx context.Context, o *Options, server record.Target, number int) error {
	for ; l.Rounds < lyingRounds; l.Rounds++ {
		p := liar.New(l.Lie, server)
		h, err := lyingRound(ctx, o, p, o.Round<<l.Rounds, fmt.Sprintf("lie-%d-%d", number, l.Rounds), o.Seed+uint64(lyingRounds*number+l.Rounds))
		if err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
		}
		l.Found = history.Check(h)
		if p.Done() {
			fmt.Fprintf(o.Log, "%s, round %d: %d violations, caught: %t\n", l.Name, l.Rounds+1, len(l.Found), l.Caught())
			l.Rounds++
			return nil
		}
		if len(l.Found) > 0 && !p.Lied() {
			return fmt.Errorf("%s: nobody has lied, and there are violations: %v", l.Name, l.Found[0])
		}
	}
	return fmt.Errorf("%s: no occasion in %d rounds", l.Name, lyingRounds)
}

// lyingRound lets clients work through a proxy.
func lyingRound(ctx context.Context, o *Options, p *liar.Proxy, duration time.Duration, namespace string, seed uint64) (_ *history.History, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	proxy := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() { served <- proxy.Serve(listener) }()
	transport := &http.Transport{MaxIdleConnsPerHost: o.Clients + o.Watchers}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	h, err := record.Round(ctx, record.Options{Targets: []record.Target{{URL: "http://" + listener.Addr().String(), Client: client, Watches: client}},
		Namespace: namespace, Seed: seed, Duration: duration, Clients: o.Clients, Watchers: o.Watchers, Names: o.Names, Patience: patience, EndWithin: endWithin})
	err = errors.Join(err, proxy.Close())
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return h, err
}
