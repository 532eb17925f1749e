package custom

// byVersion maps versions to values. Definitions have one or two versions, and are many: a map would take the room of eight.
type byVersion[T any] []ofVersion[T]

// ofVersion is the value of one version.
type ofVersion[T any] struct {
	version string
	is      T
}

// find returns the value of a version. Not inlined, because the many calls would take kilobytes of the binary.
//
//go:noinline
func (b byVersion[T]) find(version string) (is T, there bool) {
	for i := range b {
		if b[i].version == version {
			return b[i].is, true
		}
	}
	return is, false
}

// of is find, with the zero value for a missing version.
func (b byVersion[T]) of(version string) T {
	is, _ := b.find(version)
	return is
}

// set sets the value of a version.
//
//go:noinline
func (b *byVersion[T]) set(version string, is T) {
	for i := range *b {
		if (*b)[i].version == version {
			(*b)[i].is = is
			return
		}
	}
	*b = append(*b, ofVersion[T]{version, is})
}
