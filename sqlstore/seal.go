package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/rowlock/rowlock/resources"
)

// The bytes of an object of an encrypted resource reach the database only if they are sealed: both its data and its
// selectable fields, which are bytes of it as well, in objects and in changes. newChangeRow turns objects into rows,
// and takes both from sealer.seal only. loader.build turns rows into objects, and takes both from sealer.open. In
// between, in memory, nothing is encrypted.
//
// The key, the revision, the times and the author of a change are not sealed, just as etcd has its keys unencrypted.
//
// A sealed row has this text in the column data
//
//	k8s:enc:<provider>:<version>:<key>:<base64>
//
// and NULL in the column fields. It is what kube-apiserver would store, with everything after the name of the key in
// base64, since the column is text. The plaintext is the data, followed by a zero byte and the column fields unless
// that is NULL. The authenticated data contain the key of the object, so that a value that is sealed for one key does
// not open under another one. (aescbc and secretbox do not check that, as in kube-apiserver.)

// sealedPrefix begins sealed data. Objects are JSON, and begin with a brace.
const sealedPrefix = "k8s:enc:"

func isSealed(data string) bool { return strings.HasPrefix(data, sealedPrefix) }

// sealer seals and opens the rows of a database.
type sealer struct {
	transformers value.ResourceTransformers // nil: nothing is encrypted, and encrypted rows cannot be read

	mu sync.Mutex
	// slow has, by the head of sealed rows, the last slow failure to open rows.
	slow map[string]slowFailure
}

type slowFailure struct {
	at  time.Time
	err error
}

const (
	// openSlowly is the time of a failure to open rows from which it counts as slow: it must have called another
	// process.
	openSlowly = 100 * time.Millisecond
	// openAgain is how long after such a failure reads of many rows do not call the other process again.
	openAgain = 5 * time.Second
	// openWithin is the time limit to open a row while other work waits for it.
	openWithin = 500 * time.Millisecond
)

// sealed are the values of an object in a row.
type sealed struct {
	data   string
	fields sql.NullString
}

func (s *sealer) transformer(key resources.Key) value.Transformer {
	if s.transformers == nil {
		return identity.NewEncryptCheckTransformer()
	}
	return s.transformers.TransformerForResource(schema.ParseGroupResource(key.Resource))
}

// boundTo returns the authenticated data of a key. Resources and names have no slash.
func boundTo(key resources.Key) value.Context {
	return value.DefaultContext("/registry/" + key.String())
}

// seal returns the values of an object for a row. Errors: *resources.TransformError.
func (s *sealer) seal(ctx context.Context, key resources.Key, data []byte, f sql.NullString) (sealed, error) {
	clear := sealed{text(data), f}
	if s == nil || s.transformers == nil {
		return clear, nil
	}
	plain := data
	if f.Valid {
		plain = make([]byte, 0, len(data)+1+len(f.String))
		plain = append(append(append(plain, data...), 0), f.String...)
	}
	out, err := s.transformer(key).TransformToStorage(ctx, plain, boundTo(key))
	switch {
	case err != nil:
		return sealed{}, &resources.TransformError{Key: key, Err: err}
	case !bytes.HasPrefix(out, []byte(sealedPrefix)):
		return clear, nil
	}
	return sealed{data: encodeSealed(out)}, nil
}

// sealObject is seal for an object in its stored form.
func (s *sealer) sealObject(ctx context.Context, o *resources.Object) (sealed, error) {
	f, err := encodeFields(o.Fields)
	if err != nil {
		return sealed{}, err
	}
	return s.seal(ctx, o.Key, o.Stored(), f)
}

// encodeSealed makes text of a transformer's result. The base64 part begins after the last colon.
func encodeSealed(out []byte) string {
	head := len(sealedPrefix)
	for range 3 { // provider, version, key
		next := bytes.IndexByte(out[head:], ':') + 1
		head += next
		if next == 0 || !printable(out[:head]) {
			head = len(sealedPrefix)
			break
		}
	}
	b := make([]byte, head, head+base64.RawStdEncoding.EncodedLen(len(out)-head))
	copy(b, out)
	return text(base64.RawStdEncoding.AppendEncode(b, out[head:]))
}

func printable(b []byte) bool {
	return bytes.IndexFunc(b, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// headOf returns everything before the base64 part.
func headOf(data string) string { return data[:strings.LastIndexByte(data, ':')+1] }

// errNotSealed says that data begin with sealedPrefix but are not sealed.
var errNotSealed = errors.New("what is encrypted in the database is not in base64")

// sealedLeast is how many bytes the encryption of an object has at least: AES-GCM adds the fewest, twelve before and
// sixteen after.
const sealedLeast = 12 + len("{}") + 16

// checkSealed returns an error if a sealed row is visibly invalid, as far as that can be checked without keys.
func checkSealed(r *Row) error {
	b, err := base64.RawStdEncoding.DecodeString(r.Data[len(headOf(r.Data)):])
	switch {
	case err != nil:
		return errNotSealed
	case len(b) < sealedLeast:
		return errors.New("what is encrypted in the database is too short to be an object")
	case r.Fields != nil:
		return errors.New("has selectable fields in clear beside what is encrypted")
	}
	return nil
}

// open is the inverse of seal. stale reports that seal would encrypt it differently now. Errors: those of the
// transformer.
func (s *sealer) open(ctx context.Context, key resources.Key, row sealed) (data []byte, f sql.NullString, stale bool, err error) {
	stored := bytesOf(row.data)
	if isSealed(row.data) {
		head := headOf(row.data)
		stored = append(make([]byte, 0, len(row.data)), head...)
		if stored, err = base64.RawStdEncoding.AppendDecode(stored, bytesOf(row.data[len(head):])); err != nil {
			return nil, f, false, errNotSealed
		}
	}
	plain, stale, err := s.transformer(key).TransformFromStorage(ctx, stored, boundTo(key))
	if err != nil || !isSealed(row.data) {
		return plain, row.fields, stale, err
	}
	if at := bytes.LastIndexByte(plain, 0); at >= 0 {
		return plain[:at:at], sql.NullString{String: string(plain[at+1:]), Valid: true}, stale, nil
	}
	return plain, f, stale, nil
}

// opens reports whether a row has to be opened. With transformers, unsealed rows are given to them as well.
func (s *sealer) opens(data string) bool {
	return s != nil && (s.transformers != nil || isSealed(data))
}

// openMany is open for callers that read many rows while other work may wait for them: after a slow failure, no other
// process is called for a while for rows sealed with the same key. Rows that open without such a call still do, for
// example those of a KMS plugin whose keys are cached. failing is how long the reader has waited for rows that did not
// open: many fast failures take long, too.
func (s *sealer) openMany(ctx context.Context, key resources.Key, row sealed, failing *time.Duration) ([]byte, sql.NullString, error) {
	head := ""
	if isSealed(row.data) {
		head = headOf(row.data)
	}
	begun := time.Now()
	s.mu.Lock()
	failed, ok := s.slow[head]
	s.mu.Unlock()
	known := ok && begun.Sub(failed.at) < openAgain
	if known {
		ctx = asksNobody
	}
	data, f, _, err := s.open(ctx, key, row)
	switch {
	case err == nil:
		return data, f, nil
	case known:
		return nil, sql.NullString{}, failed.err
	}
	if *failing += time.Since(begun); *failing >= openSlowly {
		s.mu.Lock()
		if s.slow == nil {
			s.slow = map[string]slowFailure{}
		}
		s.slow[head] = slowFailure{time.Now(), err}
		s.mu.Unlock()
	}
	return nil, sql.NullString{}, err
}

// asksNobody is an ended context, with which a transformer cannot call another process.
var asksNobody = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
