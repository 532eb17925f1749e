package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// A server of the target that is started while the store is copied becomes ready after the switch. A client that writes all the time is refused by the
// server of the source from one write on, and goes on at the target with that write: no acknowledged write is lost.
func TestMigrateToAWaitingServer(t *testing.T) {
	c := newPostgres(t)
	for name, m := range map[string]struct {
		from, to []string // URL and schema
	}{
		"SQLiteToPostgres":   {sqlitePlace(t, "from.db"), []string{c.URL(), "moved"}},
		"PostgresToSQLite":   {[]string{c.URL(), "source"}, sqlitePlace(t, "to.db")},
		"PostgresToPostgres": {[]string{c.URL(), "old"}, []string{c.URL(), "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			migrateToAWaitingServer(t, m.from, m.to)
		})
	}
}

func migrateToAWaitingServer(t *testing.T, from, to []string) {
	dir := filepath.Join(t.TempDir(), "data")
	source := start(t, "--data-dir", dir, "--datastore", from[0], "--schema", from[1])
	client := source.client(t)
	configMaps := client.CoreV1().ConfigMaps("default")
	if _, err := configMaps.Create(t.Context(), newConfigMap("a", "0"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	args := []string{"migrate", "--hold", "1m", "--from", from[0], "--from-schema", from[1], "--to", to[0], "--to-schema", to[1]}
	followed := followUntilCopied(t, args)

	target := beginStart(t, "--data-dir", dir, "--datastore", to[0], "--schema", to[1], "--listen", freeAddress(t))
	until(t, "the server of the target waits", func() bool { return strings.Contains(target.stderr.String(), "waiting until the database is a store") })
	followed()

	refused := make(chan int) // the first write that was refused
	first := make(chan struct{})
	go func() {
		for i := 1; ; i++ {
			if i == 2 {
				close(first)
			}
			if err := put(t.Context(), client, i); err != nil {
				refused <- i
				return
			}
		}
	}()
	<-first
	runs(t, args...)
	next := <-refused
	select {
	case <-target.ready:
	case code := <-target.ended:
		t.Fatalf("the server of the target ended with %d: %s", code, target.stderr.String())
	}
	there := (&process{kubeconfig: filepath.Join(dir, "admin.kubeconfig")}).client(t)
	if got := gjson.Get(send(t, there, "GET", "/api/v1/namespaces/default/configmaps/a", ""), "data.v").Str; got != fmt.Sprint(next-1) {
		t.Errorf("the target has the write %s, and %d was the last that was acknowledged", got, next-1)
	}
	if err := put(t.Context(), there, next); err != nil {
		t.Errorf("the write %d at the target: %v", next, err)
	}
	source.end()
	target.stop()
	if code := <-target.ended; code != 0 {
		t.Errorf("the server of the target ended with %d: %s", code, target.stderr.String())
	}
}

// put makes one write, without trying again.
func put(ctx context.Context, client kubernetes.Interface, i int) error {
	return client.CoreV1().RESTClient().Put().Namespace("default").Resource("configmaps").Name("a").Body(newConfigMap("a", fmt.Sprint(i))).MaxRetries(0).Do(ctx).Error()
}

// followUntilCopied runs rowlock migrate --follow until it has copied the store once. The function that it returns ends the command.
func followUntilCopied(t *testing.T, args []string) func() {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan int, 1)
	var stderr heard
	go func() {
		code := run(ctx, append(args[:len(args):len(args)], "--follow"), writer, &stderr)
		writer.Close()
		ended <- code
	}()
	lines := bufio.NewScanner(reader)
	for lines.Scan() && !strings.Contains(lines.Text(), ", objects: ") {
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }()
	return func() {
		t.Helper()
		stop()
		if code := <-ended; code != 0 {
			t.Fatalf("migrate --follow ended with %d: %s", code, stderr.String())
		}
	}
}
