package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/e2e/harness"
)

// scaleCommand measures a Rowlock on SQLite with few and with very many small ConfigMaps: the time of a restart, the memory of an object beyond its
// own bytes, and the cost of a get and a create.
func scaleCommand(o *options) *cobra.Command {
	var few, many int
	c := &cobra.Command{
		Use:     "scale",
		Short:   "Measure Rowlock on SQLite with very many small ConfigMaps",
		Example: "  bench scale --objects 1000000",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return scale(cmd.Context(), *o, few, many, cmd.OutOrStdout())
		},
	}
	c.Flags().IntVar(&few, "few", 5000, "objects to compare with")
	c.Flags().IntVar(&many, "objects", 1000000, "objects")
	return c
}

func scale(ctx context.Context, o options, few, many int, out io.Writer) (err error) {
	if err := errors.Join(o.checkProtocols(), harness.Build(ctx, "rowlock")); err != nil {
		return err
	}
	fmt.Fprintf(out, "| ConfigMaps | of bytes each | start to ready, CPU until then | resident at rest | beyond its own bytes, of an object | get, CPU | create, CPU |\n"+
		"|---|---|---|---|---|---|---|\n")
	empty := int64(0)
	for _, n := range []int{0, few, many} {
		if empty, err = scaleRow(ctx, o, n, empty, out); err != nil {
			return err
		}
	}
	return nil
}

// scaleRow fills a database, starts a server on it, and measures that. It returns the resident memory without objects.
func scaleRow(ctx context.Context, o options, n int, empty int64, out io.Writer) (_ int64, err error) {
	dir, err := os.MkdirTemp("", "rowlock-scale-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := scaleDatabase(ctx, dir, n); err != nil {
		return 0, err
	}
	server, err := harness.StartRowlock(ctx, harness.RowlockOptions{DataDir: dir})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	procs := processes(server.PIDs())
	started, err := procs.cpu()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, o.Idle); err != nil { // it returns unneeded memory
		return 0, err
	}
	resident, err := procs.resident()
	if err != nil || n == 0 {
		return resident, err
	}
	b, err := scaleClients(ctx, o, server)
	if err != nil {
		return 0, err
	}
	defer b.hangUp()
	size, err := b.admin.do(ctx, request{method: http.MethodGet, path: fmt.Sprintf("%s/small-%d", configMapsPath, n-1)})
	if err != nil {
		return 0, err
	}
	got, made, err := b.scaleCosts(ctx, n)
	if err != nil {
		return 0, err
	}
	fmt.Fprintf(out, "| %d | %d | %.1f s, %.1f s | %d MiB | %d bytes | %d µs | %d µs |\n", n, size, server.StartToReady.Seconds(), started.Seconds(),
		resident>>20, (resident-empty)/int64(n)-size, got.CPU.Microseconds(), made.CPU.Microseconds())
	return empty, nil
}

// scaleDatabase creates a database of n ConfigMaps, imported from the file of an etcd.
func scaleDatabase(ctx context.Context, dir string, n int) (err error) {
	if n == 0 {
		return nil
	}
	file := filepath.Join(dir, "etcd.db")
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	if err := scaleSource(file, n); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, harness.Binary("rowlock"), "import", "--to", "sqlite://"+filepath.Join(dir, "rowlock.db"), file)
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("import: %w\n%s", err, said)
	}
	return nil
}

// scaleSource creates the file.
func scaleSource(file string, n int) (err error) {
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	const atOnce = 20000
	for from := 0; from < n; from += atOnce {
		if err := db.Update(func(tx *bbolt.Tx) error {
			keys, err := tx.CreateBucketIfNotExists([]byte("key"))
			if err != nil {
				return err
			}
			if _, err := tx.CreateBucketIfNotExists([]byte("lease")); err != nil {
				return err
			}
			for i := from; i < min(n, from+atOnce); i++ {
				if err := keys.Put(etcdRow(fmt.Sprintf("small-%d", i), i)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// etcdRow is a revision as key, and a KeyValue (mvccpb/kv.proto) as value, as etcd stores them for a ConfigMap of kube-apiserver's.
func etcdRow(name string, i int) (key, value []byte) {
	const keyField, modRevisionField, valueField = 1, 3, 5
	revision := uint64(i + 2)
	key = binary.BigEndian.AppendUint64(append(binary.BigEndian.AppendUint64(nil, revision), '_'), 0)
	value = protowire.AppendString(protowire.AppendTag(nil, keyField, protowire.BytesType), "/registry/configmaps/"+namespace+"/"+name)
	value = protowire.AppendVarint(protowire.AppendTag(value, modRevisionField, protowire.VarintType), revision)
	return key, protowire.AppendBytes(protowire.AppendTag(value, valueField, protowire.BytesType), storedMap(name, i))
}

// storedMap is a small ConfigMap.
func storedMap(name string, i int) []byte {
	return fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"uid":"6b1f6f2e-4a7e-4d2c-9a51-%012x",`+
		`"creationTimestamp":"2026-01-01T00:00:00Z","managedFields":[{"manager":"bench","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z",`+
		`"fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:key":{}}}}]},"data":{"key":"value"}}`, name, namespace, i)
}

func smallMap(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"key":"value"}}`, name)
}

func scaleClients(ctx context.Context, o options, server *harness.Server) (*bench, error) {
	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, procs: server.PIDs(), config: config, server: &Server{Name: "scale"}}
	crew, err := b.crew(b.Protocols[0], 1)
	if err != nil {
		return nil, err
	}
	b.admin = crew[0]
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, namespace)
	if _, err := b.admin.do(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces", body: body}); err != nil && !isStatus(err, http.StatusConflict) {
		return nil, err
	}
	return b, nil
}

// scaleCosts measures gets and creates.
func (b *bench) scaleCosts(ctx context.Context, n int) (got, made Result, err error) {
	const clients, stride = 16, 7919 // a prime, so that neighbours in time are not neighbours in the store
	made, err = b.measureRow(ctx, b.Protocols[0], clients, load{row: "create"}, func(ctx context.Context, c *client, _, _, seq int) (int64, error) {
		return c.do(ctx, request{method: http.MethodPost, path: configMapsPath, body: smallMap(fmt.Sprintf("new-%d", seq))})
	})
	if err != nil {
		return got, made, err
	}
	got, err = b.measureRow(ctx, b.Protocols[0], clients, load{row: "get"}, func(ctx context.Context, c *client, _, _, seq int) (int64, error) {
		return c.do(ctx, request{method: http.MethodGet, path: fmt.Sprintf("%s/small-%d", configMapsPath, seq*stride%n)})
	})
	if failed := got.Errors + made.Errors; err == nil && failed > 0 {
		err = fmt.Errorf("%d requests failed: %s%s", failed, made.FirstError, got.FirstError)
	}
	return got, made, err
}
