// Command checker lets clients work on Rowlock while faults are injected, records all requests and answers, and verifies them; see
// docs/reliability.md. It exits with 1 when a guarantee was broken.
//
//	main.go   the command line
//	history   the records, and their verifier
//	record    the clients
//	trial     servers, databases, faults
//	disk      a faulty disk
//	clock     clocks that jump
//	liar      servers that lie
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/clock"
	"github.com/rowlock/rowlock/e2e/checker/disk"
	"github.com/rowlock/rowlock/e2e/checker/history"
	"github.com/rowlock/rowlock/e2e/checker/trial"
	"github.com/rowlock/rowlock/e2e/harness"
)

// none is the value of -faults for no faults.
const none = "none"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := trial.Options{Log: os.Stdout}
	databases := flag.String("databases", "sqlite,postgres", "the databases, one after the other")
	faults := flag.String("faults", "all", "all, none, or some of "+trial.Faults(trial.SQLite)+" (SQLite), "+trial.Faults(trial.Postgres)+" (Postgres)")
	verify := flag.String("verify", "", "verify the history in this file, and do nothing else")
	lies := flag.Bool("lies", false, "have servers lie in every way there is, and expect to find it out; -duration, -servers, -faults and -keep mean nothing then")
	losses := flag.String("losses", "", "lose writes of Postgres, and let clients go on: some of "+strings.Join(trial.Losses, ",")+", each -duration / -round times")
	flag.DurationVar(&o.Duration, "duration", time.Minute, "how long clients work on each database, with each number of servers")
	flag.DurationVar(&o.Round, "round", 15*time.Second, "how long a history is; each begins with an empty namespace")
	servers := flag.String("servers", "1,2", "how many servers, one number after the other; SQLite has one")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano())%1e6, "chooses what clients do and which faults there are")
	flag.IntVar(&o.Clients, "clients", 10, "how many clients")
	flag.IntVar(&o.Watchers, "watchers", 24, "how many watches")
	flag.IntVar(&o.Names, "names", 12, "how many objects the clients share")
	flag.DurationVar(&o.Pause, "pause", 2*time.Second, "how long nothing is broken between two faults, at most")
	flag.BoolVar(&o.Crowd, "crowd", false, "clients and watches are many: lists are rare, and each watch sees a few objects")
	flag.IntVar(&o.Reluctant, "reluctant", 8, "of a crowd, how many watches see everything and hardly read")
	flag.DurationVar(&o.HistoryAge, "history-age", 0, "prune changes at this age, a few seconds: what is older may be refused; 0: nothing is pruned during a round")
	flag.StringVar(&o.HistorySize, "history-size", "", "with -history-age: also bound history by its bytes, as in 128Ki: then every 410 counts as right, and nothing may be left out all the same")
	flag.StringVar(&o.Keep, "keep", ".", "the directory for histories that have violations, and of rounds that fail")
	flag.BoolVar(&o.KeepAll, "keep-all", false, "keep all histories")
	flag.Parse()
	var err error
	switch {
	case *verify != "":
		err = verifyFile(*verify)
	case *losses != "":
		err = lose(ctx, o, strings.Split(*servers, ","), strings.Split(*losses, ","))
	case *lies:
		err = lie(ctx, o, strings.Split(*databases, ","))
	default:
		err = run(ctx, o, strings.Split(*databases, ","), strings.Split(*servers, ","), strings.Split(*faults, ","))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o trial.Options, databases, servers, names []string) error {
	if err := harness.Build(ctx, "rowlock"); err != nil {
		return err
	}
	var errs []error
	for _, o.Database = range databases {
		if o.Database != trial.SQLite && o.Database != trial.Postgres {
			return fmt.Errorf("there is no database %q", o.Database)
		}
		var err error
		if o.Faults, err = chosen(o.Database, names); err != nil {
			return err
		}
		for i, number := range servers {
			if _, err := fmt.Sscan(number, &o.Servers); err != nil || o.Servers < 1 {
				return fmt.Errorf("%q is no number of servers", number)
			}
			if o.Database == trial.SQLite {
				if i > 0 {
					break
				}
				o.Servers = 1
			}
			errs = append(errs, try(ctx, o))
		}
	}
	return errors.Join(errs...)
}

// lie runs trials of servers that lie.
func lie(ctx context.Context, o trial.Options, databases []string) error {
	if err := harness.Build(ctx, "rowlock"); err != nil {
		return err
	}
	var errs []error
	for _, o.Database = range databases {
		all, err := trial.Lies(ctx, o)
		errs = append(errs, err)
		for _, l := range all {
			if !l.Caught() {
				errs = append(errs, fmt.Errorf("%s: %s: not found out in %d rounds", o.Database, l.Name, l.Rounds))
			}
		}
	}
	return errors.Join(errs...)
}

// lose runs trials of databases that lose writes.
func lose(ctx context.Context, o trial.Options, servers, ways []string) error {
	if err := harness.Build(ctx, "rowlock"); err != nil {
		return err
	}
	o.Database = trial.Postgres
	var errs []error
	for _, number := range servers {
		if _, err := fmt.Sscan(number, &o.Servers); err != nil || o.Servers < 1 {
			return fmt.Errorf("%q is no number of servers", number)
		}
		for _, way := range ways {
			if !slices.Contains(trial.Losses, way) {
				return fmt.Errorf("writes are not lost by %q", way)
			}
			for range max(1, o.Duration/o.Round) {
				report, err := trial.Lose(ctx, o, way)
				errs = append(errs, tell(o, report, err))
				o.Seed++
			}
		}
	}
	return errors.Join(errs...)
}

// try is one trial.
func try(ctx context.Context, o trial.Options) error {
	report, err := trial.Run(ctx, o)
	return tell(o, report, err)
}

// tell prints the findings of a trial, and returns an error if there are violations.
func tell(o trial.Options, report *trial.Report, err error) error {
	if report == nil {
		return err
	}
	fmt.Printf("%s, %d servers, seed %d: %v\n", o.Database, o.Servers, o.Seed, report)
	for _, v := range report.Violations {
		fmt.Println(v)
	}
	if len(report.Violations) > 0 {
		err = errors.Join(err, fmt.Errorf("%d violations; histories: %v", len(report.Violations), report.Kept))
	}
	return err
}

// chosen returns those of the named faults that a database has.
func chosen(database string, names []string) (all []string, err error) {
	if slices.Equal(names, []string{"all"}) {
		names = strings.Split(trial.Faults(database), ",")
		if err := disk.Available(); err != nil {
			fmt.Printf("%s: faults of disks are left out: %v\n", database, err)
			names = slices.DeleteFunc(names, trial.NeedsDisk)
		}
		if err := clock.Available(); err != nil {
			fmt.Printf("%s: clocks do not jump: %v\n", database, err)
			names = slices.DeleteFunc(names, trial.NeedsClock)
		}
	}
	for _, name := range names {
		switch {
		case trial.Supports(database, name):
			all = append(all, name)
		case name != none && !trial.Supports(trial.Postgres, name) && !trial.Supports(trial.SQLite, name):
			return nil, fmt.Errorf("there is no fault %q", name)
		}
	}
	return all, nil
}

func verifyFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h, err := history.Read(file)
	if err != nil {
		return err
	}
	found := history.Check(h)
	for _, v := range found {
		fmt.Println(v)
	}
	fmt.Printf("%d operations, %d watches, verified from revision %d to %d: %d violations\n", len(h.Operations), len(h.Watches), h.Start, history.Verifiable(h), len(found))
	if len(found) > 0 {
		return errors.New("something was promised and not kept")
	}
	return nil
}
