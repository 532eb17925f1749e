package disk

// sector is the unit that a disk writes atomically.
const sector = 512

// CutPower leaves the state after a power cut, once the processes that had files open are dead. Flushed data remains; of data written since, nothing,
// all, a beginning, or only some sectors.
func (d *Disk) CutPower() {
	d.mu.Lock()
	defer d.mu.Unlock()
	leave := []func([]byte, []change) []byte{d.nothing, d.everything, d.beginning, d.sectors}[d.random.IntN(4)]
	names := map[string]*file{}
	left := map[*file]*file{} // a file may have had a name, and have another
	for _, all := range []map[string]*file{d.names, d.kept} {
		for name := range all {
			if _, done := names[name]; done {
				continue
			}
			f := d.kept[name]
			if d.names[name] != f && d.random.IntN(2) == 0 {
				f = d.names[name]
			}
			if f != nil && left[f] == nil {
				after := d.newFile(name) // another inode, which the kernel has not cached
				after.data = leave(f.durable, f.pending)
				after.durable = append([]byte(nil), after.data...)
				left[f] = after
			}
			names[name] = left[f]
		}
	}
	for name, f := range names {
		if f == nil {
			delete(names, name)
		}
	}
	d.names, d.kept = names, cloned(names)
	d.death, d.fault = nil, Fault{}
}

func (d *Disk) nothing(durable []byte, _ []change) []byte { return durable }

func (d *Disk) everything(data []byte, pending []change) []byte {
	for i := range pending {
		data = pending[i].apply(data)
	}
	return data
}

// beginning keeps the first changes, and a part of the next one.
func (d *Disk) beginning(data []byte, pending []change) []byte {
	n := d.random.IntN(len(pending) + 1)
	data = d.everything(data, pending[:n])
	if n < len(pending) && len(pending[n].data) > 0 {
		c := pending[n]
		c.data = c.data[:d.random.IntN(len(c.data)+1)/sector*sector]
		if len(c.data) > 0 {
			data = c.apply(data)
		}
	}
	return data
}

// sectors keeps some sectors of the written data, in no order.
func (d *Disk) sectors(data []byte, pending []change) []byte {
	for i := range pending {
		c := &pending[i]
		if c.data == nil {
			if d.random.IntN(2) == 0 {
				data = c.apply(data)
			}
			continue
		}
		for rest := *c; len(rest.data) > 0; {
			n := min(sector-rest.at%sector, int64(len(rest.data)))
			if part := (change{at: rest.at, data: rest.data[:n]}); d.random.IntN(2) == 0 {
				data = part.apply(data)
			}
			rest.at, rest.data = rest.at+n, rest.data[n:]
		}
	}
	return data
}
