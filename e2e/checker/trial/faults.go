package trial

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// fault is a fault that has ended when its function returns; the result says whether it took effect.
type fault struct {
	on    string // the database that it applies to; empty: both
	disk  bool   // it is one of disks
	clock bool   // it is one of clocks
	do    func(*breaker) (bool, error)
}

// order lists the names of the faults in the order of reports.
var order = []string{"kill", "stop", "clock", "terminate", "cut", "commit", "half-open", "postmaster",
	"system-call", "power", "full", "read-only", "io", "slow", "corrupt"}

var faults = map[string]fault{
	"kill":  {do: (*breaker).kill},
	"stop":  {do: (*breaker).hang},
	"clock": {clock: true, do: (*breaker).jump},

	"terminate":  {on: Postgres, do: (*breaker).terminate},
	"cut":        {on: Postgres, do: (*breaker).cut},
	"commit":     {on: Postgres, do: (*breaker).commit},
	"half-open":  {on: Postgres, do: (*breaker).halfOpen},
	"postmaster": {on: Postgres, do: (*breaker).postmaster},

	"system-call": {on: SQLite, disk: true, do: (*breaker).systemCall},
	"power":       {on: SQLite, disk: true, do: (*breaker).power},
	"full":        {on: SQLite, disk: true, do: (*breaker).full},
	"read-only":   {on: SQLite, disk: true, do: (*breaker).readOnly},
	"io":          {on: SQLite, disk: true, do: (*breaker).io},
	"slow":        {on: SQLite, disk: true, do: (*breaker).slow},
	"corrupt":     {on: SQLite, disk: true, do: (*breaker).corrupt},
}

// breaker injects faults into servers and their environment.
type breaker struct {
	*servers
	*rand.Rand
	ctx   context.Context // ends with the trial
	round context.Context // ends with the time of the clients, and every fault with it
}

// inject injects one fault after the other until the round is over: all in some order, then in another one.
func (s *servers) inject(round, ctx context.Context, o *Options, random *rand.Rand, count map[string]int) error {
	b := &breaker{servers: s, Rand: random, ctx: ctx, round: round}
	pause := cmp.Or(o.Pause, 2*time.Second)
	var turns []int
	for b.wait(pause/4, pause); len(o.Faults) > 0 && round.Err() == nil; b.wait(pause/4, pause) {
		if len(turns) == 0 {
			turns = random.Perm(len(o.Faults))
		}
		name := o.Faults[turns[0]]
		turns = turns[1:]
		broke, err := faults[name].do(b)
		if err != nil {
			return fmt.Errorf("fault %s: %w", name, err)
		}
		if broke {
			count[name]++
		}
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
func (b *breaker) kill() (bool, error) {
	return true, b.restart(b.ctx, b.one(), func() { b.wait(0, 300*time.Millisecond) })
}

// hang stops a server for a while. To the other servers, and to its database, it looks like one that has lost its network.
func (b *breaker) hang() (bool, error) {
	server := b.running[b.one()]
	if err := server.Signal(syscall.SIGSTOP); err != nil {
		return false, err
	}
	b.wait(100*time.Millisecond, 2*time.Second)
	return true, server.Signal(syscall.SIGCONT)
}

// terminate makes Postgres end any connection of a server.
func (b *breaker) terminate() (bool, error) {
	return true, b.cluster.Run("psql", "--quiet", "--no-psqlrc", "--command", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`)
}

// cut breaks a connection before a message of a server arrives, or before its answer does.
func (b *breaker) cut() (bool, error) {
	b.proxy.BreakAfter(b.Int64N(100), b.IntN(2) == 0)
	b.wait(100*time.Millisecond, time.Second)
	broke := b.proxy.Broke()
	b.proxy.BreakAfter(-1, false)
	return broke, nil
}

// commit breaks a few connections between COMMIT and its answer.
func (b *breaker) commit() (bool, error) {
	times := 1 + b.Int64N(3)
	b.proxy.BreakAtCommit(times)
	b.wait(100*time.Millisecond, time.Second)
	return b.proxy.BreakAtCommit(0) < times, nil
}

// halfOpen makes the network between servers and Postgres lose everything for a while: the connections of that time never recover, and neither end
// is told.
func (b *breaker) halfOpen() (bool, error) {
	b.proxy.Lose()
	b.wait(100*time.Millisecond, 2*time.Second)
	b.proxy.Recover()
	return true, nil
}

// postmaster kills every process of Postgres, and starts it again.
func (b *breaker) postmaster() (bool, error) {
	if err := b.cluster.Kill(); err != nil {
		return false, err
	}
	return true, b.cluster.Start()
}
