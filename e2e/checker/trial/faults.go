package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault is something that breaks, and is whole again when its function returns.
type fault struct {
	postgres bool // it is one of Postgres alone
	do       func(*breaker) error
}

// The names of the faults, in the order in which they are told.
var order = []string{"kill", "stop"}

var faults = map[string]fault{
	"kill": {do: (*breaker).kill},
	"stop": {do: (*breaker).hang},
}

// breaker breaks servers and what is around them.
type breaker struct {
	*servers
	*rand.Rand
	ctx   context.Context // ends with the trial
	round context.Context // ends with the time of the clients: nothing stays broken longer
}

// inject breaks one thing after the other until the round is over.
func (s *servers) inject(round, ctx context.Context, names []string, random *rand.Rand, count map[string]int) error {
	b := &breaker{servers: s, Rand: random, ctx: ctx, round: round}
	for b.wait(500*time.Millisecond, 2*time.Second); len(names) > 0 && round.Err() == nil; b.wait(500*time.Millisecond, 2*time.Second) {
		name := names[random.IntN(len(names))]
		if err := faults[name].do(b); err != nil {
			return fmt.Errorf("fault %s: %w", name, err)
		}
		count[name]++
	}
	return nil
}

// wait waits for a while between two bounds, or until the round is over.
func (b *breaker) wait(least, most time.Duration) {
	select {
	case <-b.round.Done():
	case <-time.After(least + time.Duration(b.Int64N(int64(most-least)))):
	}
}

func (b *breaker) one() int { return b.IntN(len(b.running)) }

// kill kills a server as a crash would, and starts it again.
func (b *breaker) kill() error {
	return b.restart(b.ctx, b.one(), func() { b.wait(0, 300*time.Millisecond) })
}

// hang stops a server for a while. To the others, and to its database, it looks like one that has lost its network.
func (b *breaker) hang() error {
	server := b.running[b.one()]
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	b.wait(100*time.Millisecond, 2*time.Second)
	return server.Signal(syscall.SIGCONT)
}
