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

// The codes with which the process ends.
const (
	exitFailure = 1
	exitUsage   = 2                          // the command line was wrong; nothing was done
	exitPipe    = 128 + int(syscall.SIGPIPE) // nobody reads what is written: what shells show of a process that is ended by that
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		ends = append(ends, syscall.SIGHUP) // of a terminal that is closed
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	// The first signal drains. From then on signals do what they do by default, so that a second one ends the process, but for those of a terminal,
	// which come twice when it is closed: from the shell, and from the system once that has ended.
	context.AfterFunc(ctx, func() {
		signal.Ignore(syscall.SIGHUP)
		stop()
	})
	os.Exit(run(ctx, arguments(os.Args), os.Stdout, os.Stderr))
}

// arguments are those of the command line. A link to the program that is named after one of these commands is that
// command.
func arguments(line []string) []string {
	name := strings.TrimSuffix(filepath.Base(line[0]), ".exe")
	if name == kubeAPIServerName || name == etcdName {
		return append([]string{name}, line[1:]...)
	}
	return line[1:]
}

// run is main with its surroundings as arguments. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)
	for _, c := range root.Commands() {
		c.Flags().SetOutput(stderr) // what is said of deprecated flags, which cobra has on the other one
	}
	cmd, err := root.ExecuteContextC(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "Error: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	case isUnread(err):
		return exitPipe
	default:
		fmt.Fprintf(stderr, "Error: %s\n", harmlessLines(err.Error()))
		return exitFailure
	}
}

// makeTemporary makes a directory that is removed at the end. From now on nobody reading the output is an error, by which the process ends in order, and not
// its end at once, which would leave in the directory what no one else is to read.
func makeTemporary(pattern string) (string, error) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return files.MakeTemporary(pattern)
}

// isUnread reports whether an error is that nobody reads the output any more.
func isUnread(err error) bool {
	at := (*fs.PathError)(nil)
	return errors.As(err, &at) && at.Path == os.Stdout.Name() && errors.Is(at, syscall.EPIPE)
}

// usageError is a mistake in the command line or in the environment that stands for it.
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

// addCompletion adds cobra's command, in which a shell that it does not know is a mistake, and no wish for help. It comes when it is known where to
// scripts are written.
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

// noArguments refuses what follows a command that takes flags only.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}
