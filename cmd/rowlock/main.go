package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/rowlock/rowlock/cmd/rowlock/memprofile"
	"github.com/rowlock/rowlock/resources/files"
)

// The exit codes of the process.
const (
	exitFailure = 1
	// exitUsage is EX_USAGE of sysexits.h: the command line was wrong, and nothing was done. It must not be 2, with which Go ends a process after a
	// panic or a SIGABRT: the unit of systemd does not restart the server after exitUsage.
	exitUsage = 64
	exitPipe  = 128 + int(syscall.SIGPIPE) // the output has no reader: the code that shells show for a process ended by this signal
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	// The first signal starts the shutdown. Later signals have their default effect, so that a second one ends the process. SIGHUP has none, because it
	// comes twice when a terminal is closed: from the shell, and from the system once the shell has ended. (signal.Ignore would be too late: one that
	// comes meanwhile ends the process.)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup sets it
		ends = append(ends, syscall.SIGHUP)
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, arguments(os.Args), os.Stdout, os.Stderr))
}

// arguments returns the arguments of the command line. A link to the program with the name of one of these commands
// runs that command.
func arguments(line []string) []string {
	name := strings.TrimSuffix(filepath.Base(line[0]), ".exe")
	if name == kubeAPIServerName || name == etcdName {
		return append([]string{name}, line[1:]...)
	}
	return line[1:]
}

// run is main with its environment as parameters. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	out := &output{w: stdout}
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(stderr)
	addCompletion(root)
	for _, c := range root.Commands() {
		c.Flags().SetOutput(stderr) // warnings about deprecated flags, which cobra writes to stdout
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.failed
	}
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "Error: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		if cmd.Name() == kubeAPIServerName {
			return exitFailure // as of kube-apiserver itself
		}
		return exitUsage
	case isUnread(err):
		return exitPipe
	default:
		fmt.Fprintf(stderr, "Error: %s\n", harmlessLines(err.Error()))
		return exitFailure
	}
}

// output is the standard output. A failed write makes the command end with an error, even if the command itself ignores it.
type output struct {
	w      io.Writer
	failed error // the error of the first failed write
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.failed == nil {
		o.failed = err
	}
	return n, err
}

// aside returns the writer for output that is not the purpose of a command: a failed write does not make the command fail.
func aside(w io.Writer) io.Writer {
	if o, ok := w.(*output); ok {
		return o.w
	}
	return w
}

// makeTemporary creates a directory that is removed at the end. From then on, a write to an output without a reader is an error instead of a signal
// that ends the process at once: the directory has secrets and must not be left behind.
func makeTemporary(pattern string) (string, error) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return files.MakeTemporary(pattern)
}

// isUnread reports whether an error means that the output has no reader.
func isUnread(err error) bool {
	at := (*fs.PathError)(nil)
	return errors.As(err, &at) && at.Path == os.Stdout.Name() && errors.Is(at, syscall.EPIPE)
}

// usageError is an error in the command line, or in the environment that replaces it.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "rowlock",
		Short: "The Kubernetes API, served from SQL",
		Long: "Rowlock is the Kubernetes API, served from SQL: one process and one SQLite file, no etcd.\n\n" +
			"    rowlock serve        start the server; it prints how to use kubectl with it",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE:                  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		DisableFlagsInUseLine: true,
		SilenceErrors:         true,
		SilenceUsage:          true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := setFromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return setFromFile(cmd.Flags())
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(newServeCommand(), newKubeAPIServerCommand(), newEnvtestAssetsCommand(), newEtcdCommand(), newKubeconfigCommand(), newTokenCommand(), newKeysCommand(),
		newBackupCommand(), newRestoreCommand(), newVerifyCommand(), newHistoryCommand(), newUndeleteCommand(), newRewriteCommand(), newMigrateCommand(), newImportCommand(), newExportCommand(), newSQLCommand(),
		newVersionCommand())
	return root
}

// addCompletion adds cobra's completion command, in which an unknown shell is an error and not a request for help. It is called when the output for
// scripts is known.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	addValueCompletion(root)
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.DisableFlagsInUseLine = true
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		c.Args = func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("no completion is known for %q", args[0])
			}
			return nil
		}
		for _, shell := range c.Commands() {
			shell.Args = noArguments
		}
	}
}

// noArguments refuses arguments of a command that takes only flags.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}
