package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rowlock/rowlock/e2e/harness"
)

const (
	litestreamWriters = 4
	litestreamRounds  = 12
	// litestreamRound is the number of acknowledged writes between two syncs, each of litestreamBytes: together they exceed the size that Rowlock allows
	// the write-ahead log.
	litestreamRound = 60
	litestreamBytes = 64 << 10
)

// TestLitestream lets Litestream replicate a store during writes, kills it in between and starts it anew, and then loses everything but the replica
// and pki/. Restored as docs/backup.md says, the store is whole and has all writes acknowledged before the last sync, and clients are told that they
// are back in time.
func TestLitestream(t *testing.T) {
	if database.url != "" {
		return // it is for SQLite, and was already tested
	}
	if err := harness.Build(t.Context(), "litestream"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	server := startServer(t, harness.RowlockOptions{})
	replica := filepath.Join(t.TempDir(), "replica")
	l := newLedger()
	stop := l.write(ctx, clientFor(t, server).CoreV1().ConfigMaps("default"))
	defer stop()
	var durable map[string]*corev1.ConfigMap
	source := filepath.Join(server.DataDir, "rowlock.db")
	agent := startReplicator(ctx, t, source, replica)
	for round := range litestreamRounds {
		if round%3 == 2 {
			agent.kill()
			awaitNewLog(t, source+"-wal", func() { l.allow(litestreamWriters) })
			agent = startReplicator(ctx, t, source, replica)
		}
		begin := l.allow(2 * litestreamRound) // not more, or the data would grow faster than it is copied
		known, err := l.await(begin + litestreamRound)
		if err != nil {
			t.Fatal(err)
		}
		agent.sync(t)
		durable = known
	}
	agent.kill()
	stop()
	if l.err != nil {
		t.Fatal(l.err)
	}
	server.Kill()

	kept, file, backup, dir := t.TempDir(), filepath.Join(t.TempDir(), "copy.db"), filepath.Join(t.TempDir(), "backup"), t.TempDir()
	if err := os.Rename(filepath.Join(server.DataDir, "pki"), filepath.Join(kept, "pki")); err != nil {
		t.Fatal(err)
	}
	succeeds(t, "litestream", "restore", replica, file)
	succeeds(t, "rowlock", "verify", "--data-dir", kept, "--datastore", "sqlite://"+file)
	succeeds(t, "rowlock", "backup", "--data-dir", kept, "--datastore", "sqlite://"+file, backup)
	succeeds(t, "rowlock", "restore", "--data-dir", dir, backup)
	l.check(ctx, t, clientFor(t, startServer(t, harness.RowlockOptions{DataDir: dir})).CoreV1().ConfigMaps("default"), durable)
}

// ledger records the writers' answers.
type ledger struct {
	mu      sync.Mutex
	more    *sync.Cond
	last    map[string]*corev1.ConfigMap // by name; nil: deleted
	writes  int
	most    int // writers wait at this number of acknowledged writes
	stopped bool
	newest  string // resourceVersion
	err     error
}

func newLedger() *ledger {
	l := &ledger{last: map[string]*corev1.ConfigMap{}}
	l.more = sync.NewCond(&l.mu)
	return l
}

// write lets writers create, update and delete, each objects of its own, until stop is called, which waits for them.
func (l *ledger) write(ctx context.Context, configMaps typedcorev1.ConfigMapInterface) (stop func()) {
	var writers sync.WaitGroup
	for w := range litestreamWriters {
		writers.Go(func() {
			for i := 0; l.proceed(); i++ {
				if err := l.writeOne(ctx, configMaps, fmt.Sprintf("boat-%d-%d", w, i), i%3 == 0); err != nil {
					l.note("", nil, err)
					return
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		l.stop()
		writers.Wait()
	})
}

// allow lets writers go on until more further writes are acknowledged, and returns the present number.
func (l *ledger) allow(more int) (now int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = l.writes + more
	l.more.Broadcast()
	return l.writes
}

func (l *ledger) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.more.Broadcast()
}

// proceed waits until a writer may go on; false: it has to stop.
func (l *ledger) proceed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writes >= l.most && !l.stopped && l.err == nil {
		l.more.Wait()
	}
	return !l.stopped && l.err == nil
}

func (l *ledger) writeOne(ctx context.Context, configMaps typedcorev1.ConfigMapInterface, name string, deletes bool) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"freight": strings.Repeat("x", litestreamBytes)}}
	m, err := configMaps.Create(ctx, m, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	l.note(name, m, nil)
	m = m.DeepCopy()
	m.Data["freight"] = strings.Repeat("y", litestreamBytes)
	if m, err = configMaps.Update(ctx, m, metav1.UpdateOptions{}); err != nil {
		return err
	}
	l.note(name, m, nil)
	if !deletes {
		return nil
	}
	if err := configMaps.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	l.note(name, nil, nil)
	return nil
}

// note records an answer.
func (l *ledger) note(name string, m *corev1.ConfigMap, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.more.Broadcast()
	if err != nil {
		l.err = err
		return
	}
	l.writes++
	l.last[name] = m
	if m != nil {
		l.newest = m.ResourceVersion
	}
}

// await waits for a number of acknowledged writes, and returns the known objects of that moment.
func (l *ledger) await(writes int) (map[string]*corev1.ConfigMap, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.writes < writes && l.err == nil {
		l.more.Wait()
	}
	return maps.Clone(l.last), l.err
}

// check requires that a restored server has the acknowledged writes. A later state of an object is allowed: it was replicated too.
func (l *ledger) check(ctx context.Context, t *testing.T, configMaps typedcorev1.ConfigMapInterface, durable map[string]*corev1.ConfigMap) {
	t.Helper()
	list, err := configMaps.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]*corev1.ConfigMap{}
	for i := range list.Items {
		have[list.Items[i].Name] = &list.Items[i]
	}
	for name, want := range durable {
		switch got := have[name]; {
		case want == nil && got != nil:
			t.Errorf("%s was deleted, and is there", name)
		case want == nil:
		case got == nil:
			if l.last[name] != nil {
				t.Errorf("%s is lost", name)
			}
		case got.UID != want.UID || revision(t, got.ResourceVersion) < revision(t, want.ResourceVersion):
			t.Errorf("%s: revision %s of %s instead of %s of %s", name, got.ResourceVersion, got.UID, want.ResourceVersion, want.UID)
		case got.ResourceVersion == want.ResourceVersion && got.Data["freight"] != want.Data["freight"]:
			t.Errorf("%s is another one", name)
		}
	}
	events, err := configMaps.Watch(ctx, metav1.ListOptions{ResourceVersion: l.newest})
	if err == nil {
		err = apierrors.FromObject((<-events.ResultChan()).Object)
		events.Stop()
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch that goes on where it was is told %v", err)
	}
}

// awaitNewLog returns once SQLite has restarted its write-ahead log, and before it is long: the end of the old log, which Litestream knows, would be
// behind that of the new one. After Rowlock has truncated the log it is empty, until a write begins it. Meanwhile it keeps calling write, which lets
// a few writes happen: Litestream may have moved the log just before, and then it has to grow first.
func awaitNewLog(t *testing.T, log string, write func()) {
	t.Helper()
	salts := func() string {
		header := make([]byte, 32)
		f, err := os.Open(log)
		if err == nil {
			_, err = io.ReadFull(f, header)
			_ = f.Close() // it was only read
		}
		if errors.Is(err, io.EOF) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		return string(header[16:24])
	}
	before := salts()
	for until := time.Now().Add(time.Minute); salts() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the log was not begun anew")
		}
		write()
	}
}

// replicator is a running Litestream.
type replicator struct {
	cmd    *exec.Cmd
	input  io.Writer
	output *bufio.Reader
	said   *strings.Builder // to be read only after its end
	kill   func()           // with SIGKILL
}

func startReplicator(ctx context.Context, t *testing.T, file, replica string) *replicator {
	t.Helper()
	r := &replicator{cmd: exec.CommandContext(ctx, harness.Binary("litestream"), "replicate", file, replica), said: &strings.Builder{}}
	r.cmd.Stderr = r.said
	input, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.input, r.output = input, bufio.NewReader(output)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.kill = sync.OnceFunc(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait() // it was killed
	})
	t.Cleanup(r.kill)
	return r
}

// sync returns when the replica has the whole database.
func (r *replicator) sync(t *testing.T) {
	t.Helper()
	_, err := io.WriteString(r.input, "\n")
	line := ""
	if err == nil {
		line, err = r.output.ReadString('\n')
	}
	if err != nil || line != "synced\n" {
		r.kill()
		t.Fatalf("litestream says %q, %v\n%s", line, err, r.said)
	}
}

// succeeds runs a command to its end.
func succeeds(t *testing.T, binary string, args ...string) {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), harness.Binary(binary), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", binary, args, err, output)
	}
}
