package clock

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// function replaces __vdso_clock_gettime(clock, *timespec). It may change rax, rcx, rdx and r11, as any function may. The field at displacement gets
// the distance of the offset from the next instruction.
var function = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xc0, // test eax, eax
	0x75, 58, // jnz done
	0x85, 0xff, // test edi, edi (CLOCK_REALTIME)
	0x74, 5, // jz add
	0x83, 0xff, 5, // cmp edi, 5 (CLOCK_REALTIME_COARSE)
	0x75, 49, // jne done
	// add: seconds and nanoseconds of the offset, which has the sign of both
	0x48, 0x8b, 0x05, 0, 0, 0, 0, // mov rax, [rip + displacement]
	0x48, 0x99, // cqo
	0xb9, 0x00, 0xca, 0x9a, 0x3b, // mov ecx, 1000000000
	0x48, 0xf7, 0xf9, // idiv rcx
	0x48, 0x01, 0x06, // add [rsi], rax
	0x48, 0x03, 0x56, 0x08, // add rdx, [rsi+8]
	0x79, 6, // jns over
	0x48, 0x01, 0xca, // add rdx, rcx
	0x48, 0xff, 0x0e, // dec qword [rsi]
	// over:
	0x48, 0x39, 0xca, // cmp rdx, rcx
	0x7c, 6, // jl store
	0x48, 0x29, 0xca, // sub rdx, rcx
	0x48, 0xff, 0x06, // inc qword [rsi]
	// store:
	0x48, 0x89, 0x56, 0x08, // mov [rsi+8], rdx
	0x31, 0xc0, // xor eax, eax
	// done:
	0xc3, // ret
}

const (
	displacement = 23 // position of the field in the function
	afterIt      = 27 // end of that instruction
	symbol       = "__vdso_clock_gettime"
)

// Start starts a command whose clock shows the time of the machine plus an offset. The command must not have SysProcAttr of its own.
func Start(cmd *exec.Cmd, offset time.Duration) (*Clock, error) {
	// A process is traced by a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c, err := replace(cmd.Process.Pid, offset)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("give a process a clock: %w", err), cmd.Process.Kill())
	}
	if err := syscall.PtraceDetach(cmd.Process.Pid); err != nil {
		return nil, errors.Join(fmt.Errorf("let a process go: %w", err), cmd.Process.Kill())
	}
	return c, nil
}

// replace replaces the function in a process that has stopped before its first instruction, so no thread is executing the function.
func replace(pid int, offset time.Duration) (_ *Clock, err error) {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return nil, err
	}
	if !status.Stopped() {
		return nil, fmt.Errorf("it has not stopped at its start, but %#x", int(status))
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	c := &Clock{memory: memory}
	defer func() {
		if err != nil {
			err = errors.Join(err, memory.Close())
		}
	}()
	at, err := find(memory, pid)
	if err != nil {
		return nil, err
	}
	c.offset = (at + int64(len(function)) + 7) &^ 7
	code := bytes.Clone(function)
	binary.LittleEndian.PutUint32(code[displacement:], uint32(c.offset-at-afterIt))
	if _, err := memory.WriteAt(code, at); err != nil {
		return nil, err
	}
	return c, c.write(offset)
}

func (c *Clock) write(offset time.Duration) error {
	var word [8]byte
	binary.LittleEndian.PutUint64(word[:], uint64(offset))
	_, err := c.memory.WriteAt(word[:], c.offset)
	return err
}

// find returns the address of the function in a process.
func find(memory *os.File, pid int) (int64, error) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to int64
		if !strings.HasSuffix(lines.Text(), "[vdso]") {
			continue
		}
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x", &from, &to); err != nil {
			return 0, err
		}
		image := make([]byte, to-from)
		if _, err := memory.ReadAt(image, from); err != nil {
			return 0, err
		}
		return findIn(image, from)
	}
	return 0, errors.New("the kernel maps no vDSO")
}

func findIn(image []byte, from int64) (int64, error) {
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name != symbol {
			continue
		}
		if s.Size < uint64(len(function)+16) {
			return 0, fmt.Errorf("vDSO: %s has %d bytes, which is no room", symbol, s.Size)
		}
		return from + int64(s.Value), nil
	}
	return 0, fmt.Errorf("vDSO: there is no %s", symbol)
}

// Available returns why no process can be given a clock; nil: one can.
func Available() error {
	cmd := exec.Command("sleep", "60")
	c, err := Start(cmd, time.Hour)
	if err == nil {
		err = errors.Join(c.Set(-time.Hour), c.Close(), cmd.Process.Kill())
	}
	if err != nil {
		err = fmt.Errorf("clocks that jump are put into the vDSO of a process: %w", err)
	}
	if cmd.Process != nil {
		_ = cmd.Wait() // it was killed
	}
	return err
}
