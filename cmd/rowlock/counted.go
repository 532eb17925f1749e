package main

import "strconv"

// counted is a number with the noun that it counts: "1 row", "2 rows". Whose plural has more to it than an s says it.
func counted[N int | int64](n N, one string, many ...string) string {
	noun := one
	switch {
	case n == 1:
	case len(many) > 0:
		noun = many[0]
	default:
		noun += "s"
	}
	return strconv.FormatInt(int64(n), 10) + " " + noun
}
