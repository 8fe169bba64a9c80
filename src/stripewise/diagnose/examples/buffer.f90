! One statement writes the whole array: not one statement for each element.
subroutine write_records(path, records)
  implicit none
  character(*), intent(in) :: path
  double precision, intent(in) :: records(:, :)
  integer :: unit
  open (newunit=unit, file=path, access="stream", form="unformatted", status="replace", action="write")
  write (unit) records
  close (unit)
end subroutine write_records
