! A code that writes a file of each process: records of one step, flushed every so many steps.
! each_rank OUTPUT NAMELIST
program each_rank
  implicit none
  integer, parameter :: steps = 192, cells = 512
  integer :: flush_every = 1
  namelist /output/ flush_every
  character(len=4096) :: path, settings
  real(8) :: state(cells)
  integer :: step, i, out
  call get_command_argument(1, path)
  call get_command_argument(2, settings)
  open (newunit=out, file=trim(settings), action='read', status='old')
  read (out, nml=output)
  close (out)
  state = [(real(i, 8), i=1, cells)]
  open (newunit=out, file=trim(path), access='stream', form='unformatted', status='replace')
  do step = 1, steps
    state = state*1.0001d0 + step
    write (out) step, state
    if (mod(step, flush_every) == 0) flush (out)
  end do
  close (out)
end program each_rank
