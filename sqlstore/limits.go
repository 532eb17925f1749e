package sqlstore

import (
	"fmt"
	"time"
)

// limits bounds the time for a database that others share and that may hang. No limit is long, because a client's
// request waits, or others wait for it; but a disk has a worst second, and to give up during it makes matters worse.
type limits struct {
	step    time.Duration // of a transaction, before its connection is given up
	read    time.Duration // for a page of rows
	rows    time.Duration // from one row to the next while everything is read
	lookUp  time.Duration // to look up the outcome of a transaction whose COMMIT was not answered
	lock    time.Duration // for the counter, which other servers hold in turn; less than step, so that the error is the database's
	idle    time.Duration // for the next step of a server that holds the counter, before the database ends the transaction
	ping    time.Duration // for a sign of life of a connection that was idle
	poll    time.Duration // without a notification, before a look at the log: a notification may have been lost with its connection
	unheard time.Duration // the same if another server is known to live: a permission or token that it revokes must stop within ten seconds, limits.ping included
	shrink  time.Duration // without use, before all connections of a pool but one are closed
	rest    time.Duration // without use, before the last one is
	quiet   time.Duration // for another write, while a batch gathers
	gather  time.Duration // for a batch to gather
}

// deaf is how long changes of other servers may stay unnoticed.
func (l *limits) deaf() time.Duration { return min(l.poll, l.unheard) }

var usualLimits = limits{step: 15 * time.Second, read: 10 * time.Second, rows: 30 * time.Second, lookUp: 20 * time.Second,
	lock: 10 * time.Second, idle: 5 * time.Second, ping: 3 * time.Second, poll: 30 * time.Second, unheard: 6 * time.Second,
	shrink: 5 * time.Second, rest: time.Minute,
	quiet: time.Millisecond, gather: 5 * time.Millisecond}

// durableSQL makes a COMMIT durable, also where synchronous_commit is off.
const durableSQL = `set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'local' ELSE current_setting('synchronous_commit') END, true)`

// statement returns the settings of a transaction that the database enforces: the time to wait for the counter, and the
// time to hold it while the server is gone or stopped, which would stop all others. An acknowledged write must be
// durable, so synchronous_commit is not off, and the database has to send the warning that a COMMIT stopped waiting for
// its standby.
func (l limits) statement() string {
	return fmt.Sprintf(`SELECT set_config('lock_timeout', '%dms', true), set_config('idle_in_transaction_session_timeout', '%dms', true),
set_config('client_min_messages', 'warning', true),
`+durableSQL,
		l.lock.Milliseconds(), l.idle.Milliseconds())
}
