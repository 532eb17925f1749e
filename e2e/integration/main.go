// Command integration runs upstream's own integration tests against the built Rowlock: packages of test/integration of the published module
// k8s.io/kubernetes, whose tests start a kube-apiserver within their own process.
//
// While the tests are compiled, the files that start that server are replaced (go's -overlay) by those of e2e/peers/kubernetes/integration, which start
// bin/rowlock instead. Everything else is upstream's, unchanged and not copied.
//
// The files of expected name the packages, and say for each which tests are skipped or fail, and why, and how many pass. Any other result is an error.
//
//	main.go    the flags, and the run of each package
//	build.go   the test binaries
//	expect.go  the expected results
//	report.go  what a run has reported, and how that differs from the expected results
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

func main() {
	var o options
	flag.StringVar(&o.run, "run", "", "run the tests whose names match this regular expression, and compare no counts")
	flag.BoolVar(&o.verbose, "v", false, "show what the tests print")
	flag.BoolVar(&o.all, "all", false, "also run the tests that are listed to be skipped")
	onPostgres := flag.Bool("postgres", false, "let Rowlock store in a Postgres, which is started for it")
	flag.DurationVar(&o.timeout, "timeout", 40*time.Minute, "how long the tests of a package may take")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: integration [flags] [package ...]   (auth, apiserver/cel; default: all of expected)")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.runAll(ctx, flag.Args(), *onPostgres); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	run          string
	verbose, all bool
	timeout      time.Duration
	datastore    string
}

// runAll runs the named packages, and prints a line for each.
func (o *options) runAll(ctx context.Context, names []string, onPostgres bool) (err error) {
	packages, err := selected(names)
	if err != nil {
		return err
	}
	if err := harness.Build(ctx, "rowlock"); err != nil {
		return err
	}
	if onPostgres {
		var cluster *pgtest.Cluster
		if cluster, err = pgtest.New(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
		o.datastore = cluster.URL()
	}
	b, err := newBuilder()
	if err != nil {
		return err
	}
	var lines []string
	var problems []error
	for _, p := range packages {
		line, err := o.runPackage(ctx, b, p)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:\n%w", p.path, err))
		}
		if line != "" {
			lines = append(lines, line)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	fmt.Println(strings.Join(lines, "\n"))
	return errors.Join(problems...)
}

// runPackage compiles and runs the tests of a package and returns a line with its counts. The error names each result that is not the expected one.
func (o *options) runPackage(ctx context.Context, b *builder, p expected) (string, error) {
	binary, dir, err := b.build(ctx, p.path)
	if err != nil {
		return "", err
	}
	known, err := list(ctx, binary, dir)
	if err != nil {
		return "", err
	}
	log := binary + ".json"
	if err := o.test(ctx, binary, dir, log, p); err != nil {
		return "", err
	}
	report, err := readReport(log)
	if err != nil {
		return "", err
	}
	problems := append(p.unknown(known), report.differences(p, o.run == "", o.all)...)
	for i, problem := range problems {
		problems[i] = errors.New("  " + problem.Error())
	}
	return fmt.Sprintf("%s: %s", p.path, report.counts(p)), errors.Join(problems...)
}

// list returns the names of the tests in a binary.
func list(ctx context.Context, binary, dir string) ([]string, error) {
	cmd := exec.CommandContext(ctx, binary, "-test.list", "^Test")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s -test.list: %w", binary, err)
	}
	return strings.Fields(string(out)), nil
}

// test runs a binary in the directory of its package and writes the events of test2json. A failed test is no error.
func (o *options) test(ctx context.Context, binary, dir, log string, p expected) error {
	temporary, err := os.MkdirTemp("", "rowlock-integration-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	args := []string{"-test.v=test2json", "-test.timeout", o.timeout.String(), "-test.run", o.run}
	if skip := p.skipped(); len(skip) > 0 && !o.all {
		args = append(args, "-test.skip", "^("+strings.Join(skip, "|")+")$")
	}
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary, "ROWLOCK_INTEGRATION_BINARY="+harness.Binary("rowlock"), "ROWLOCK_INTEGRATION_DATASTORE="+o.datastore)
	// A test that panics stops no servers. They are in the process group of the binary.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	converter := exec.CommandContext(ctx, "go", "tool", "test2json", "-t", "-p", p.path)
	converter.Dir, converter.Stderr = harness.Root(), os.Stderr
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	converter.Stdout = out
	into, err := converter.StdinPipe()
	if err != nil {
		return err
	}
	if err := converter.Start(); err != nil {
		return err
	}
	fmt.Println("run", p.path)
	cmd.Stdout, cmd.Stderr = into, into
	if o.verbose {
		cmd.Stdout = tee{into}
		cmd.Stderr = cmd.Stdout
	}
	var failed *exec.ExitError
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if errors.As(err, &failed) {
		err = nil
	}
	return errors.Join(err, into.Close(), converter.Wait())
}

// selected returns the packages with the given names, or all.
func selected(names []string) ([]expected, error) {
	all, err := readExpected()
	if err != nil || len(names) == 0 {
		return all, err
	}
	var packages []expected
	for _, name := range names {
		i := slices.IndexFunc(all, func(p expected) bool {
			return p.path == name || strings.HasSuffix(p.path, path.Join("/test/integration", name))
		})
		if i < 0 {
			return nil, fmt.Errorf("no file of %s is about a package %q", filepath.Join("e2e", "integration", "expected"), name)
		}
		packages = append(packages, all[i])
	}
	return packages, nil
}

// tee writes what a test prints to the output of the program as well.
type tee struct{ io.Writer }

func (t tee) Write(text []byte) (int, error) {
	_, _ = os.Stdout.Write(text)
	return t.Writer.Write(text)
}
