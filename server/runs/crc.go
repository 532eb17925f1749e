package runs

import "hash/crc32"

// A CRC-32 is the remainder of a polynomial over GF(2), so that the CRC-32 of a concatenation follows from those of its parts: the remainder of the
// first, times x to the number of bits of the second, plus the remainder of the second. The initial value and the final inversion of CRC-32 cancel
// out.
//
// Polynomials are reflected as in package crc32: the highest bit is the constant term.

// one is the polynomial 1.
const one = uint32(1) << 31

// times returns a × b modulo the polynomial of crc32.IEEE.
func times(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&one != 0 {
			product ^= b
		}
		b = shifted(b)
	}
	return product
}

// shifted returns p × x.
func shifted(p uint32) uint32 {
	if p&1 != 0 {
		return p>>1 ^ crc32.IEEE
	}
	return p >> 1
}

// powers[i] is x to the 8 × 2^i.
var powers = func() (p [64]uint32) {
	p[0] = one >> 8
	for i := 1; i < len(p); i++ {
		p[i] = times(p[i-1], p[i-1])
	}
	return p
}()

// shift is x to the number of bits of that many bytes.
func shift(bytes uint64) uint32 {
	power := one
	for i := 0; bytes != 0; i, bytes = i+1, bytes>>1 {
		if bytes&1 != 0 {
			power = times(power, powers[i])
		}
	}
	return power
}
