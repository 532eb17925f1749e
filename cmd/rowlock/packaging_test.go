package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// packagedConfig is /etc/rowlock/config.yaml: every flag with its description and its default, commented out. The data directory is
// the unit's (StateDirectory); the default of the flag is for users.
func packagedConfig(flags *pflag.FlagSet) string {
	var b strings.Builder
	b.WriteString("# What rowlock serve is told, by the names of its flags. The command line and the environment go before it.\n")
	o := &serveOptions{}
	for _, s := range o.sections() {
		fmt.Fprintf(&b, "\n### %s\n", s.title)
		s.flags.VisitAll(func(f *pflag.Flag) {
			if f.Name == configFlag {
				return
			}
			_, usage := pflag.UnquoteUsage(f)
			usual := configDefault(flags.Lookup(f.Name))
			if f.Name == dataDirFlag {
				usage += ". The unit says which, by ROWLOCK_DATA_DIR, and goes before this file: another one is for 'systemctl edit rowlock'"
				usual = ""
			}
			b.WriteString("\n")
			for _, line := range wrapped(usage, 100) {
				fmt.Fprintf(&b, "# %s\n", line)
			}
			fmt.Fprintf(&b, "#%s:%s\n", f.Name, usual)
		})
	}
	return b.String()
}

// Packages have versions that dpkg and rpm accept, in the order of the releases.
func TestPackageVersions(t *testing.T) {
	for version, want := range map[string]string{"39ee580": "0~git39ee580", "39ee580-dirty": "0~git39ee580.dirty", "v1.0.0": "1.0.0", "v1.0.0-rc.1": "1.0.0~rc.1",
		"v1.0.0-beta.2-3-gabc1234": "1.0.0~beta.2.3.gabc1234", "v1.0.0-3-gabc1234-dirty": "1.0.0.3.gabc1234.dirty"} {
		cmd := exec.CommandContext(t.Context(), "make", "-s", "-C", "../..", "--no-print-directory", "--eval", "said:;@echo '$(package_version)'", "said", "VERSION="+version)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") }) // set by a make that runs the tests
		got, err := cmd.Output()
		if strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: %s, %v; want %s", version, got, err, want)
		}
	}
}

// The unit of the package hides no files of /proc that the server reads: its start would be missing among the metrics (/proc/stat), and its socket would
// hold 128 connections that wait, whatever the system allows (/proc/sys/net/core/somaxconn).
func TestUnitShowsTheSystem(t *testing.T) {
	settings, err := os.ReadFile("../../packaging/systemd/rowlock.service")
	if err != nil || regexp.MustCompile(`(?m)^ProcSubset=`).Match(settings) {
		t.Errorf("%v, and the unit is\n%s", err, settings)
	}
}

// The unit of the package lets the server write where the page on the audit has the log, which nobody else may read.
func TestUnitHasTheLogOfTheAudit(t *testing.T) {
	read := func(file string) string {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	settings := read("../../packaging/systemd/rowlock.service")
	dir := regexp.MustCompile(`--audit-log-path /var/log/(\w+)/`).FindStringSubmatch(read("../../docs/audit.md"))
	if dir == nil || !strings.Contains(settings, "\nLogsDirectory="+dir[1]+"\nLogsDirectoryMode=0700\n") {
		t.Errorf("the log of the audit is in %q, and the unit is\n%s", dir, settings)
	}
}

// The unit of the package leaves the server down after a wrong command line alone. Go's runtime ends a process with 2 after a panic, and after the
// SIGABRT of the watchdog.
func TestUnitRestartsTheServer(t *testing.T) {
	const crash = 2
	settings, err := os.ReadFile("../../packaging/systemd/rowlock.service")
	if want := fmt.Sprintf("\nRestartPreventExitStatus=%d\n", exitUsage); err != nil || exitUsage == crash || !strings.Contains(string(settings), want) {
		t.Errorf("%v, the code of a wrong command line is %d, and the unit is\n%s", err, exitUsage, settings)
	}
}

// configDefault returns a flag's default as YAML, after a space; nothing if it has none.
func configDefault(f *pflag.Flag) string {
	list, isList := f.Value.(pflag.SliceValue)
	switch {
	case isList && len(list.GetSlice()) > 0:
		quoted := make([]string, len(list.GetSlice()))
		for i, v := range list.GetSlice() {
			quoted[i] = strconv.Quote(v)
		}
		return " [" + strings.Join(quoted, ", ") + "]"
	case isList || f.DefValue == "" || f.DefValue == "<nil>" || f.DefValue == "[]": // "[]" is an empty map
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

// There is a manual page for each command, with each of its flags, and a unit and completions with existing names.
func TestManualPages(t *testing.T) {
	dir := cmp.Or(*man, t.TempDir())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := newRootCommand()
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	texts := forManualPages(root)
	date := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC) // so that the same source gives the same pages
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "Rowlock", Manual: "Rowlock", Date: &date}, dir); err != nil {
		t.Fatal(err)
	}
	for c, said := range texts {
		name := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		page, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		page = ragged(t, page)
		if err := os.WriteFile(name, page, 0o600); err != nil {
			t.Error(err)
		}
		for _, text := range said {
			if !strings.Contains(shownText(string(page)), shownText(text)) {
				t.Errorf("%s: %q is not there as it is said", c.CommandPath(), text)
			}
		}
	}
}

// ragged makes lines end unjustified: some words among the flags are so long that troff warns of lines that it cannot fill. If man is installed, it
// has to accept the page without warnings.
func ragged(t *testing.T, page []byte) []byte {
	t.Helper()
	page = bytes.Replace(page, []byte("\n.SH NAME\n"), []byte("\n.ad l\n.SH NAME\n"), 1)
	man, err := exec.LookPath("man")
	if err != nil {
		return page
	}
	command := exec.CommandContext(t.Context(), man, "--warnings", "--local-file", "-")
	command.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8")
	command.Stdin = bytes.NewReader(page)
	var warnings bytes.Buffer
	if command.Stderr = &warnings; command.Run() != nil || warnings.Len() > 0 {
		t.Errorf("man says %s", &warnings)
	}
	return page
}

// forManualPages escapes the texts of commands as Markdown, from which the pages are generated. It returns the original texts: the names of flags,
// and paragraphs.
func forManualPages(c *cobra.Command) map[*cobra.Command][]string {
	texts := map[*cobra.Command][]string{}
	if c.HasParent() && !c.IsAvailableCommand() {
		return texts
	}
	special := regexp.MustCompile(`[\\<>*_\[\]|~&]`)
	escape := func(text string) string {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			if strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t") {
				continue // unchanged
			}
			parts := strings.Split(line, "`")
			for j := 0; j < len(parts); j += 2 {
				parts[j] = special.ReplaceAllString(parts[j], `\$0`)
			}
			lines[i] = strings.Join(parts, "`")
		}
		return strings.Join(lines, "\n")
	}
	texts[c] = append(strings.Split(c.Long, "\n\n"), c.Short)
	c.Long, c.Short = escape(c.Long), escape(c.Short)
	c.InitDefaultHelpFlag()
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Deprecated == "" { // as in pages that cobra makes
			texts[c] = append(texts[c], "--"+f.Name, f.Usage)
			f.Usage = escape(f.Usage)
		}
	})
	for _, sub := range c.Commands() {
		maps.Copy(texts, forManualPages(sub))
	}
	return texts
}

// shownText returns a page, or a text, as a reader sees it: without fonts and line breaks.
func shownText(text string) string {
	text = regexp.MustCompile(`(?m)^(\.(PP|EX|EE|IP.*|RS|RE)|\.S[HS]|####)|\\f[A-Z]|\\&|[`+"`"+`]`).ReplaceAllString(text, "")
	text = strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\e`, `\`, `\\`, `\`).Replace(text)
	return strings.Join(strings.Fields(text), " ")
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
	for args, want := range map[string]string{
		"serve --log-level ''":                       "warn\nerror\ninfo\ndebug\n:4\n",
		"sql --output=c":                             "csv\n:4\n",
		"serve --authorization-mode Node,R":          "Node,RBAC\n:4\n",
		"kube-apiserver --audit-log-mode blocking-":  "blocking-strict\n:4\n",
		"serve --disable-admission-plugins ServiceA": "ServiceAccount\n:4\n",
		"serve --data-dir ''":                        ":16\n", // directories
		"serve --tls-cert-file ''":                   ":0\n",  // files
		"keys replace f":                             "front-proxy-ca\n:4\n",
		"keys list ''":                               ":4\n", // no files
		"serve ''":                                   ":4\n",
		"verify ''":                                  ":0\n",
		"envtest-assets ''":                          ":0\n",
	} {
		if got := completes(t, strings.Fields(args)...); got != want {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// completes returns the completions that a shell gets; two quotes are an empty word.
func completes(t *testing.T, args ...string) string {
	t.Helper()
	args[len(args)-1] = strings.TrimPrefix(args[len(args)-1], "''")
	_, stdout, _ := command(t, append([]string{"__complete"}, args...)...)
	return stdout
}
