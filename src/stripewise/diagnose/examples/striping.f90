! A layout is set when the file is created: here 8 stripes of 4 MiB.
subroutine create_striped(comm, path, file)
  use mpi_f08
  implicit none
  type(MPI_Comm), intent(in) :: comm
  character(*), intent(in) :: path
  type(MPI_File), intent(out) :: file
  type(MPI_Info) :: info
  call MPI_Info_create(info)
  call MPI_Info_set(info, "striping_factor", "8")
  call MPI_Info_set(info, "striping_unit", "4194304")
  call MPI_File_open(comm, path, MPI_MODE_CREATE + MPI_MODE_EXCL + MPI_MODE_WRONLY, info, file)
  call MPI_Info_free(info)
end subroutine create_striped
