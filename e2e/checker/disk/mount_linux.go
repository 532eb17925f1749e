package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Mount lets processes use the disk at a directory, until unmount is called, when no process may have files open. It needs /dev/fuse and the right to
// mount, which usually only root has; the error names the missing one.
func (d *Disk) Mount(directory string) (unmount func() error, err error) {
	if err := Available(); err != nil {
		return nil, err
	}
	server, err := fs.Mount(directory, &root{disk: d}, &fs.Options{
		MountOptions: fuse.MountOptions{DirectMountStrict: true, FsName: "breaking", Name: "breaking", DisableXAttrs: true, MaxWrite: 1 << 20},
	})
	if err != nil {
		return nil, fmt.Errorf("mount a disk that breaks: %w", err)
	}
	return server.Unmount, nil
}

// Available returns why no disk can be mounted; nil: one can.
func Available() error {
	device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("disks that break need FUSE: %w", err)
	}
	err = device.Close()
	if os.Geteuid() != 0 {
		err = errors.Join(err, errors.New("disks that break are mounted by root"))
	}
	return err
}

// root is the directory.
type root struct {
	fs.Inode
	disk *Disk
}

// node is a file.
type node struct {
	fs.Inode
	disk *Disk
	file *file
}

var _ = (fs.NodeLookuper)((*root)(nil))
var _ = (fs.NodeCreater)((*root)(nil))
var _ = (fs.NodeUnlinker)((*root)(nil))
var _ = (fs.NodeReaddirer)((*root)(nil))
var _ = (fs.NodeFsyncer)((*root)(nil))
var _ = (fs.NodeGetattrer)((*node)(nil))
var _ = (fs.NodeSetattrer)((*node)(nil))
var _ = (fs.NodeOpener)((*node)(nil))
var _ = (fs.NodeReader)((*node)(nil))
var _ = (fs.NodeWriter)((*node)(nil))
var _ = (fs.NodeFsyncer)((*node)(nil))

func (r *root) child(ctx context.Context, f *file, out *fuse.EntryOut) *fs.Inode {
	n := &node{disk: r.disk, file: f}
	n.attributes(&out.Attr)
	return r.NewInode(ctx, n, fs.StableAttr{Mode: syscall.S_IFREG, Ino: f.inode + 1})
}

func (r *root) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	f := r.disk.lookup(name)
	if f == nil {
		return nil, syscall.ENOENT
	}
	return r.child(ctx, f, out), 0
}

func (r *root) Create(ctx context.Context, name string, _, _ uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	f, errno := r.disk.create(name)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return r.child(ctx, f, out), nil, flags(f), 0
}

func (r *root) Unlink(_ context.Context, name string) syscall.Errno { return r.disk.remove(name) }

func (r *root) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	var entries []fuse.DirEntry
	for name, f := range r.disk.names {
		entries = append(entries, fuse.DirEntry{Name: name, Mode: syscall.S_IFREG, Ino: f.inode + 1})
	}
	return fs.NewListDirStream(entries), 0
}

func (r *root) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return r.disk.flushDirectory()
}

func (n *node) attributes(out *fuse.Attr) {
	out.Mode, out.Size, out.Nlink, out.Blksize = syscall.S_IFREG|0o600, uint64(n.disk.size(n.file)), 1, 4096
	out.Blocks = (out.Size + sector - 1) / sector
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.attributes(&out.Attr)
	return 0
}

func (n *node) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		if errno := n.disk.truncate(n.file, int64(size)); errno != 0 {
			return errno
		}
	}
	n.attributes(&out.Attr)
	return 0
}

func (n *node) Open(_ context.Context, how uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, flags(n.file), n.disk.open(how&(syscall.O_WRONLY|syscall.O_RDWR) != 0)
}

// flags are those of an open file. Without FOPEN_KEEP_CACHE, the kernel reads its cached data of a file again: the file may have been spoiled, or
// have lost power. For a file that is mapped into memory, the kernel has newer data than the disk.
func flags(f *file) uint32 {
	if f.shared {
		return fuse.FOPEN_KEEP_CACHE
	}
	return 0
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, at int64) (fuse.ReadResult, syscall.Errno) {
	read, errno := n.disk.read(n.file, dest, at)
	return fuse.ReadResultData(dest[:read]), errno
}

func (n *node) Write(_ context.Context, _ fs.FileHandle, data []byte, at int64) (uint32, syscall.Errno) {
	written, errno := n.disk.write(n.file, data, at)
	return uint32(written), errno
}

func (n *node) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return n.disk.flush(n.file)
}
