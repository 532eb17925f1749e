package sqlstore

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// statementLine is a line of the database's log with the beginning of a statement, after its connection.
var statementLine = regexp.MustCompile(`(?m)^(\S+) LOG:  (?:execute [^:]*|statement): (.*)$`)

// An idle server sends one statement each time it looks for news (every 30 seconds), and no other, however many servers
// there are.
func TestIdleServersAskOneThing(t *testing.T) {
	ctx := testContext(t)
	c, err := pgtest.Options{Settings: []string{"log_statement=all", "log_line_prefix=%c "}}.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	h := newPostgresHarnessAt(t, c.URL())
	mustCommit(t, h.store, createMap(t, "first"))
	h.limits = usualLimits
	h.limits.poll = 100 * time.Millisecond
	h.close(t)
	read := func() string {
		t.Helper()
		text, err := c.Log()
		if err != nil || ctx.Err() != nil {
			t.Fatalf("the servers do not ask: %v, %v", err, ctx.Err())
		}
		return text
	}
	before := len(read())
	h.store = h.open(t)
	h.openPeer(t)
	// begun reports whether both servers have sent a statement. The look is the last one that a new listener sends.
	begun := func(log, statement string) bool {
		first, _, _ := strings.Cut(statement, "\n")
		by := map[string]bool{}
		for _, line := range statementLine.FindAllStringSubmatch(log, -1) {
			if strings.HasPrefix(line[2], first) {
				by[line[1]] = true
			}
		}
		return len(by) >= 2
	}
	for log := ""; !begun(log, selectOldestSQL) || !begun(log, selectNextDueSQL) || !begun(log, lookSQL); log = read()[before:] {
		time.Sleep(10 * time.Millisecond) // the log gives no signal to wait for
	}
	before = len(read())
	asked := map[string]map[string]int{} // by connection and statement
	for enough := false; !enough; {
		time.Sleep(10 * time.Millisecond)
		clear(asked)
		for _, line := range statementLine.FindAllStringSubmatch(read()[before:], -1) {
			if asked[line[1]] == nil {
				asked[line[1]] = map[string]int{}
			}
			asked[line[1]][line[2]]++
		}
		looks := 0
		for _, statements := range asked {
			if slices.Max(slices.Collect(maps.Values(statements))) >= 5 {
				looks++
			}
		}
		enough = looks >= 2
	}
	if len(asked) != 2 {
		t.Errorf("%d connections were used by 2 servers: %v", len(asked), asked)
	}
	for _, statements := range asked {
		if len(statements) != 1 {
			t.Errorf("a server asked for more than one thing: %v", statements)
		}
	}
}
