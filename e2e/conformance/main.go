// Command conformance runs upstream's own end-to-end tests against Rowlock, on SQLite or on Postgres, with kube-controller-manager on top: those that
// need no nodes and nothing that Rowlock does not serve. Each is named in specs.txt, and has to run and pass.
package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

//go:embed specs.txt
var specs []byte

func main() {
	only := flag.String("only", "", "run those whose name matches this regular expression")
	onPostgres := flag.Bool("postgres", false, "let Rowlock store in a Postgres, which is started for it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *onPostgres); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, onPostgres bool) (err error) {
	names, err := selected(only)
	if err != nil {
		return err
	}
	if err := harness.Build(ctx, "rowlock", "kubectl", "kube-controller-manager", "e2e.test"); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rowlock-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	options := harness.RowlockOptions{DataDir: dir, Tokens: true}
	if onPostgres {
		var cluster *pgtest.Cluster
		if cluster, err = pgtest.New(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, cluster.Stop()) }()
		options.Datastore = cluster.URL()
	}
	server, err := harness.StartRowlock(ctx, options)
	if err != nil {
		return err
	}
	defer server.Kill()
	manager, err := harness.StartControllerManager(server)
	if err != nil {
		return err
	}
	report := filepath.Join(dir, "report.json")
	ran := suite(ctx, server.Kubeconfig, report, names) // it fails when a test does, and the report shows which
	checked := check(report, names)
	if checked != nil {
		checked = errors.Join(checked, ran)
	}
	return errors.Join(checked, manager.Stop(), server.Stop())
}

// selected returns the names of the tests to run.
func selected(only string) ([]string, error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var names []string
	for lines := bufio.NewScanner(bytes.NewReader(specs)); lines.Scan(); {
		if name := lines.Text(); strings.HasPrefix(name, "[sig-") && match.MatchString(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no test matches %q", only)
	}
	return names, nil
}

// suite runs the tests one after another.
func suite(ctx context.Context, kubeconfig, report string, names []string) error {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	cmd := exec.CommandContext(ctx, harness.Binary("e2e.test"),
		"-kubeconfig", kubeconfig, "-kubectl-path", harness.Binary("kubectl"), "-provider", "skeleton",
		"-num-nodes", "0", "-allowed-not-ready-nodes", "-1", "-disable-log-dump", "-dump-logs-on-failure=false",
		"-ginkgo.no-color", "-ginkgo.silence-skips", "-ginkgo.json-report", report,
		"-ginkgo.focus", "(?:"+strings.Join(quoted, "|")+")$")
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Dir(report), os.Stdout, os.Stderr
	return cmd.Run()
}

// check reads ginkgo's report: each test has passed.
func check(report string, names []string) error {
	data, err := os.ReadFile(report)
	if err != nil {
		return err
	}
	var suites []struct {
		SpecReports []struct {
			State, LeafNodeText     string
			ContainerHierarchyTexts []string
		}
	}
	if err := json.Unmarshal(data, &suites); err != nil {
		return fmt.Errorf("%s: %w", report, err)
	}
	var passed []string
	for _, s := range suites {
		for _, spec := range s.SpecReports {
			if spec.State == "passed" {
				passed = append(passed, strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " "))
			}
		}
	}
	var problems []error
	for _, name := range names {
		if !slices.Contains(passed, name) {
			problems = append(problems, fmt.Errorf("not passed: %s", name))
		}
	}
	return errors.Join(problems...)
}
