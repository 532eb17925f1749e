package backup

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/rowlock/rowlock/resources/files"
	"github.com/rowlock/rowlock/sqlstore/archive"
)

// Open opens a backup such that it can be read more than once. A stream is copied into a temporary file without a name,
// which is gone when the process ends. A stream that does not begin like a backup is not read further, since it might
// never end. The name "-" stands for the stream in. A named pipe, as a shell makes for <(command), is such a stream,
// too.
func Open(name string, in io.Reader) (*os.File, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if info.Mode()&fs.ModeNamedPipe == 0 {
			return f, nil
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	stream := bufio.NewReader(in)
	if err := archive.CheckStart(stream); err != nil {
		return nil, err
	}
	f, err := files.CreateTemporary("rowlock-restore-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = io.Copy(f, stream)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
