// Command conformance runs upstream's own end-to-end tests against Rowlock, on SQLite or on Postgres, with kube-controller-manager on top. specs.txt names
// those that need no nodes and nothing that Rowlock does not serve. pods.txt names those that need a node, or a few programs that run in Pods: then a
// stand-in for a node is there, too. Each test has to run and to pass.
//
//	main.go             builds and starts everything, selects tests and checks their results
//	node.go             the stand-in for a node and a scheduler
//	pod.go              what it does for a Pod
//	status.go           what it reports of a Pod
//	volumes.go          the files of a Pod's volumes
//	kubelet.go          what it serves to the API server: logs and exec
//	sandbox.go          where the containers of a Pod run
//	container_linux.go  the process of a container
//	namespace_linux.go  network namespaces
package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

//go:embed specs.txt
var specs string

//go:embed pods.txt
var podSpecs string

// programs are what the run needs.
var programs = []string{"rowlock", "kubectl", "kube-controller-manager", "e2e.test", "agnhost", "sample-apiserver", "etcd"}

func main() {
	only := flag.String("only", "", "run those whose name matches this regular expression")
	onPostgres := flag.Bool("postgres", false, "let Rowlock store in a Postgres, which is started for it")
	inside := flag.Bool("in-own-network", false, "everything is built, and the network is this program's own; it sets this itself")
	container := flag.String("in-container", "", "only run the command that follows, in this root directory; it sets this itself")
	tools := flag.Bool("tools", false, "with the programs of the machine")
	flag.Parse()
	if *container != "" {
		fmt.Fprintln(os.Stderr, runInContainer(*container, *tools, flag.Args()))
		os.Exit(1)
	}
	klog.LogToStderr(false) // but for errors: the code of kubelets logs each trust bundle
	klog.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *inside {
		err = run(ctx, *only, *onPostgres)
	} else if err = harness.Build(ctx, programs...); err == nil {
		err = runInOwnNetwork(ctx, append([]string{"-in-own-network"}, os.Args[1:]...)...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, onPostgres bool) (err error) {
	without, werr := selected(specs, only)
	with, perr := selected(podSpecs, only)
	if err := errors.Join(werr, perr); err != nil {
		return err
	}
	if len(without)+len(with) == 0 {
		return fmt.Errorf("no test matches %q", only)
	}
	if err := addAddress(podNetwork); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rowlock-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// There is no default route, whose address the server would give to the Service kubernetes. Pods find the keys of tokens through that Service.
	options := harness.RowlockOptions{DataDir: dir, Tokens: true, Args: []string{"--advertise-address", podNetwork.Addr().String(),
		"--service-account-jwks-uri", "https://kubernetes.default.svc.cluster.local/openid/v1/jwks"}}
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
	return errors.Join(suites(ctx, server, dir, without, with), manager.Stop(), server.Stop())
}

// suites runs the tests that need no node, and then, with a node, the others.
func suites(ctx context.Context, server *harness.Server, dir string, without, with []string) error {
	var failed error
	if len(without) > 0 {
		failed = suite(ctx, server.Kubeconfig, filepath.Join(dir, "report.json"), without)
	}
	if len(with) == 0 {
		return failed
	}
	node, err := startNode(ctx, server, filepath.Join(dir, "pods"))
	if err != nil {
		return errors.Join(failed, err)
	}
	defer node.Stop()
	return errors.Join(failed, suite(ctx, server.Kubeconfig, filepath.Join(dir, "report-pods.json"), with))
}

// selected returns the names of a list's tests that match a regular expression.
func selected(list, only string) ([]string, error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var names []string
	for lines := bufio.NewScanner(strings.NewReader(list)); lines.Scan(); {
		if name := lines.Text(); strings.HasPrefix(name, "[sig-") && match.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// suite runs the tests one after another. Each has to pass.
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
	ran := cmd.Run() // it fails when a test does, and the report shows which
	if err := check(report, names); err != nil {
		return errors.Join(err, ran)
	}
	return nil
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
