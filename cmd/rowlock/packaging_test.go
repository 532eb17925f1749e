package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

var (
	write = flag.Bool("write", false, "write again what is generated from flags")
	man   = flag.String("man", "", "write manual pages into this directory, too")
)

const (
	packagedConfigFile = "../../packaging/config.yaml"
	dataDirFlag        = "data-dir"
)

// packagedConfig is /etc/rowlock/config.yaml: every flag with what it does and its default, commented out. The data directory is the
// unit's (StateDirectory), and the default is the user's.
func packagedConfig(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("# What rowlock serve is told, by the names of its flags. The command line and the environment go before it.\n")
	o := &serveOptions{}
	for _, s := range o.sections() {
		fmt.Fprintf(&b, "\n### %s\n", s.title)
		s.flags.VisitAll(func(f *pflag.Flag) {
			if f.Name == configFlag || f.Name == dataDirFlag {
				return
			}
			_, usage := pflag.UnquoteUsage(f)
			b.WriteString("\n")
			for _, line := range wrapped(usage, 100) {
				fmt.Fprintf(&b, "# %s\n", line)
			}
			fmt.Fprintf(&b, "#%s:%s\n", f.Name, configDefault(flags.Lookup(f.Name)))
		})
	}
	return b.String()
}

// configDefault is a flag's default as YAML, after a space; nothing where it has none.
func configDefault(f *pflag.Flag) string {
	list, isList := f.Value.(pflag.SliceValue)
	switch {
	case isList && len(list.GetSlice()) > 0:
		quoted := make([]string, len(list.GetSlice()))
		for i, v := range list.GetSlice() {
			quoted[i] = strconv.Quote(v)
		}
		return " [" + strings.Join(quoted, ", ") + "]"
	case isList || f.DefValue == "" || f.DefValue == "<nil>" || f.DefValue == "[]": // the last is a map
		return ""
	case f.DefValue == "true" || f.DefValue == "false":
		return " " + f.DefValue
	default:
		return " " + strconv.Quote(f.DefValue)
	}
}

func wrapped(text string, columns int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > columns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// There is a manual page for each command, with each of its flags, and a unit and completions that name what is there.
func TestManualPages(t *testing.T) {
	dir := cmp.Or(*man, t.TempDir())
	root := newRootCommand()
	root.DisableAutoGenTag = true
	date := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC) // so that the same source gives the same pages
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Rowlock", Manual: "Rowlock", Date: &date}, dir); err != nil {
		t.Fatal(err)
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.IsAvailableCommand() || c == root {
			page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
			if err != nil {
				t.Error(err)
			}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), "--"+f.Name) {
					t.Errorf("%s: no --%s", c.CommandPath(), f.Name)
				}
			})
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(root)
}

// Shells complete commands and flags.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, _ := command(t, "completion", shell); code != 0 || !strings.Contains(stdout, "rowlock") {
			t.Errorf("%s: %d", shell, code)
		}
	}
	if code, stdout, _ := command(t, "completion"); code != 0 || !strings.Contains(stdout, "powershell") {
		t.Errorf("without a shell: %d, %s", code, stdout)
	}
	for args, want := range map[string]string{"completion z": "zsh", "ser": "serve", "serve --data-d": "--data-dir"} {
		if _, stdout, _ := command(t, append([]string{"__complete"}, strings.Fields(args)...)...); !strings.Contains(stdout, want) {
			t.Errorf("%s: %s", args, stdout)
		}
	}
}
