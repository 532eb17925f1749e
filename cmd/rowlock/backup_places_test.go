package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// storePlace is a data directory and the flags of its database.
type storePlace struct {
	dir   string
	flags []string
}

func (s storePlace) args(more ...string) []string {
	return append(append([]string{"--data-dir", s.dir}, s.flags...), more...)
}

// places creates empty places.
type places func(t *testing.T) storePlace

// onEachDatabase runs a test on both databases in parallel: they are independent.
func onEachDatabase(t *testing.T, test func(t *testing.T, empty places)) {
	sqlite := func(t *testing.T) storePlace { return storePlace{dir: filepath.Join(t.TempDir(), "data")} }
	t.Run("SQLite", func(t *testing.T) { test(t, sqlite) })
	t.Run("Postgres", func(t *testing.T) {
		c := newPostgres(t)
		schemas := 0
		test(t, func(t *testing.T) storePlace {
			schemas++
			return storePlace{filepath.Join(t.TempDir(), "data"), []string{"--datastore", c.URL(), "--schema", fmt.Sprintf("s%d", schemas)}}
		})
	})
}

// newPostgres starts a Postgres that ends with the test.
func newPostgres(t *testing.T) *pgtest.Cluster {
	t.Helper()
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// runs runs a command that has to succeed.
func runs(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := command(t, args...)
	if code != 0 {
		t.Fatalf("rowlock %s: exit code %d: %s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// freeAddress returns an address that a server can use again after it stopped.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := harness.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", port)
}

func newConfigMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string]string{"v": value}}
}

// madeConfigMaps returns the ConfigMaps in the namespace default except the one that a controller creates some time after the start.
func madeConfigMaps(t *testing.T, client kubernetes.Interface) []corev1.ConfigMap {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// everything returns the API's answers for some objects that no start writes, by path and name.
func everything(t *testing.T, client kubernetes.Interface) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, path := range []string{"/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/services", crds, widgets} {
		for _, item := range gjson.Get(send(t, client, "GET", path, ""), "items").Array() {
			if name := item.Get("metadata.name").String(); name != "kube-root-ca.crt" {
				all[path+"/"+name] = item.Raw
			}
		}
	}
	return all
}

// followed is an informer's state of the ConfigMaps of a test.
type followed struct {
	store   cache.Store
	changed chan struct{}
}

func follow(t *testing.T, client kubernetes.Interface) *followed {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps().Informer()
	f := &followed{store: informer.GetStore(), changed: make(chan struct{}, 1)}
	note := func() {
		select {
		case f.changed <- struct{}{}:
		default:
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { note() },
		UpdateFunc: func(any, any) { note() }, DeleteFunc: func(any) { note() }}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); factory.Shutdown() })
	factory.Start(ctx.Done())
	return f
}

// until waits until the informer has the wanted state.
func (f *followed) until(t *testing.T, want string) {
	t.Helper()
	for limit := time.After(2 * time.Minute); ; {
		var have []string
		for _, o := range f.store.List() {
			if c := o.(*corev1.ConfigMap); c.Data["v"] != "" {
				have = append(have, c.Name+"="+c.Data["v"])
			}
		}
		slices.Sort(have)
		if strings.Join(have, " ") == want {
			return
		}
		select {
		case <-f.changed:
		case <-limit:
			t.Fatalf("the informer has %v, want %s", have, want)
		}
	}
}

// A Postgres that was filled, and on which no server has started yet, has no keys: a backup of it without the data directory reports that, and so
// does its restore.
func TestBackupWithoutKeys(t *testing.T) {
	c := newPostgres(t)
	root := t.TempDir()
	first, file := filepath.Join(root, "first"), filepath.Join(root, "backup")
	start(t, "--data-dir", first).end()
	runs(t, "migrate", "--from", "sqlite://"+filepath.Join(first, "rowlock.db"), "--to", c.URL())
	elsewhere := []string{"backup", "--data-dir", filepath.Join(root, "none"), "--datastore", c.URL(), file}
	const lacks = "has no keys and certificates"
	for i, has := range []bool{false, true} {
		if has { // its server publishes them
			start(t, "--data-dir", first, "--datastore", c.URL()).end()
		}
		if _, _, said := command(t, elsewhere...); strings.Contains(said, lacks) == has {
			t.Errorf("the backup, with keys: %t: %s", has, said)
		}
		if said := runs(t, "restore", "--data-dir", filepath.Join(root, fmt.Sprint(i)), file); strings.Contains(said, lacks) == has {
			t.Errorf("restored, with keys: %t: %s", has, said)
		}
	}
}
