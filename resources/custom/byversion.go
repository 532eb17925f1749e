package custom

// byVersion has something of each of some versions. Definitions have one or two, and are many: a map takes the room of eight.
type byVersion[T any] []ofVersion[T]

// ofVersion is what there is of one version.
type ofVersion[T any] struct {
	version string
	is      T
}

// find returns what there is of a version.
func (b byVersion[T]) find(version string) (is T, there bool) {
	for i := range b {
		if b[i].version == version {
			return b[i].is, true
		}
	}
	return is, false
}

// of is find, where nothing is the same as the zero value.
func (b byVersion[T]) of(version string) T {
	is, _ := b.find(version)
	return is
}

// set says what there is of a version from now on.
func (b *byVersion[T]) set(version string, is T) {
	for i := range *b {
		if (*b)[i].version == version {
			(*b)[i].is = is
			return
		}
	}
	*b = append(*b, ofVersion[T]{version, is})
}
