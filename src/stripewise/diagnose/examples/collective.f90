! Every rank writes its block of one shared file in one collective call; MPI_File_read_at_all reads alike.
subroutine write_blocks(comm, path, block)
  use mpi_f08
  implicit none
  type(MPI_Comm), intent(in) :: comm
  character(*), intent(in) :: path
  double precision, intent(in) :: block(:)
  type(MPI_File) :: file
  integer(MPI_OFFSET_KIND) :: offset
  integer :: rank
  call MPI_Comm_rank(comm, rank)
  call MPI_File_open(comm, path, MPI_MODE_CREATE + MPI_MODE_WRONLY, MPI_INFO_NULL, file)
  offset = int(rank, MPI_OFFSET_KIND) * size(block) * 8
  call MPI_File_write_at_all(file, offset, block, size(block), MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE)
  call MPI_File_close(file)
end subroutine write_blocks
