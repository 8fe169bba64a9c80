! The file is opened before the loop and closed after it, not in each step.
subroutine write_steps(path, steps)
  implicit none
  character(*), intent(in) :: path
  double precision, intent(in) :: steps(:, :)
  integer :: unit, step
  open (newunit=unit, file=path, access="stream", form="unformatted", status="replace", action="write")
  do step = 1, size(steps, 2)
    write (unit) steps(:, step)
  end do
  close (unit)
end subroutine write_steps
